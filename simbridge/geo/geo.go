// Package geo converts between the fleet's local frame and WGS84 coordinates, for the
// simulated autopilots (simbridge/autopilot, simbridge/sitl).
//
// The local frame has metres east and north of the fleet's geodetic origin in the tangent
// plane there, and altitude above the origin's. Inputs and outputs are points of either
// kind: autopilots report latitude, longitude and altitude, everything else uses metres.
// The leader's conversion is a separate implementation (firmware/fleet), so that a flight
// in the simulator checks it.
package geo

import "math"

// The WGS84 ellipsoid.
const (
	semiMajorM          = 6378137.0
	flattening          = 1 / 298.257223563
	eccentricitySquared = flattening * (2 - flattening) // first eccentricity, squared
)

// Point is a geodetic position; altitude is above the same datum as the origin's.
type Point struct {
	LatDeg float64 `yaml:"lat_deg"`
	LonDeg float64 `yaml:"lon_deg"`
	AltM   float64 `yaml:"alt_m"` // above mean sea level
}

// Local is a position in the fleet's frame, or a difference of two; a velocity has
// metres per second in the same fields.
type Local struct{ EastM, NorthM, UpM float64 }

// Add returns l + m.
func (l Local) Add(m Local) Local {
	return Local{l.EastM + m.EastM, l.NorthM + m.NorthM, l.UpM + m.UpM}
}

// Sub returns l - m.
func (l Local) Sub(m Local) Local {
	return Local{l.EastM - m.EastM, l.NorthM - m.NorthM, l.UpM - m.UpM}
}

// Scale returns l times a factor.
func (l Local) Scale(k float64) Local { return Local{l.EastM * k, l.NorthM * k, l.UpM * k} }

// HorizontalM is the length of the horizontal part.
func (l Local) HorizontalM() float64 { return math.Hypot(l.EastM, l.NorthM) }

// ToLocal returns p in the frame of an origin.
func (origin Point) ToLocal(p Point) Local {
	east, north := eastNorth(origin, p)
	return Local{east, north, p.AltM - origin.AltM}
}

// FromLocal returns the geodetic position of l in the frame of an origin.
func (origin Point) FromLocal(l Local) Point {
	p := Point{origin.LatDeg, origin.LonDeg, origin.AltM + l.UpM}
	// The radii of curvature give a first guess good to centimetres per
	// kilometre; each correction with the exact forward map squares that.
	for range 4 {
		east, north := eastNorth(origin, p)
		sin, cos := math.Sincos(rad(p.LatDeg))
		w := 1 - eccentricitySquared*sin*sin
		prime := semiMajorM / math.Sqrt(w)                // east-west radius
		meridian := prime * (1 - eccentricitySquared) / w // north-south radius
		p.LatDeg += deg((l.NorthM - north) / (meridian + p.AltM))
		p.LonDeg += deg((l.EastM - east) / ((prime + p.AltM) * cos))
	}
	p.LonDeg = math.Remainder(p.LonDeg, 360)
	return p
}

// eastNorth returns the east and north coordinates of p in the plane that touches
// the ellipsoid below the origin.
func eastNorth(origin, p Point) (eastM, northM float64) {
	ox, oy, oz := toECEF(origin)
	px, py, pz := toECEF(p)
	x, y, z := px-ox, py-oy, pz-oz
	sinLat, cosLat := math.Sincos(rad(origin.LatDeg))
	sinLon, cosLon := math.Sincos(rad(origin.LonDeg))
	eastM = -sinLon*x + cosLon*y
	northM = -sinLat*cosLon*x - sinLat*sinLon*y + cosLat*z
	return eastM, northM
}

func toECEF(p Point) (x, y, z float64) {
	sinLat, cosLat := math.Sincos(rad(p.LatDeg))
	sinLon, cosLon := math.Sincos(rad(p.LonDeg))
	prime := semiMajorM / math.Sqrt(1-eccentricitySquared*sinLat*sinLat)
	return (prime + p.AltM) * cosLat * cosLon, (prime + p.AltM) * cosLat * sinLon,
		(prime*(1-eccentricitySquared) + p.AltM) * sinLat
}

func rad(degrees float64) float64 { return degrees * math.Pi / 180 }
func deg(radians float64) float64 { return radians * 180 / math.Pi }
