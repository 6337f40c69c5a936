package fleet

import (
	"fmt"
	"math"

	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// Origin is the fleet's geodetic origin, the area's south-west corner.
type Origin struct {
	LatitudeDeg  float64         `yaml:"latitude_deg" json:"latitude_deg"`
	LongitudeDeg float64         `yaml:"longitude_deg" json:"longitude_deg"`
	AltitudeM    height.AboveSea `yaml:"amsl_m" json:"amsl_m"`
}

// Check returns what is wrong with an origin. The tangent plane is not usable at a pole.
func (o Origin) Check() error {
	if !(math.Abs(o.LatitudeDeg) <= 85) || !(math.Abs(o.LongitudeDeg) <= 180) || !(math.Abs(float64(o.AltitudeM)) <= 9000) {
		return fmt.Errorf("origin is %v deg, %v deg, %v m, want -85 to 85, -180 to 180, -9000 to 9000",
			o.LatitudeDeg, o.LongitudeDeg, o.AltitudeM)
	}
	return nil
}

// WGS84.
const (
	semiMajorM          = 6378137.0
	flattening          = 1 / 298.257223563
	eccentricitySquared = flattening * (2 - flattening)
)

// Local returns a geodetic position in metres east and north in the WGS84
// tangent plane at the origin, and its altitude above the origin's. Altitudes
// above sea level stand for those above the ellipsoid: the geoid is level to
// millimetres over a fleet's area.
func (o Origin) Local(latitudeDeg, longitudeDeg float64, amslM height.AboveSea) (physics.Position, height.AboveOrigin) {
	east, north := o.eastNorth(latitudeDeg, longitudeDeg, amslM)
	return physics.Position{EastM: east, NorthM: north}, height.AboveOrigin(amslM - o.AltitudeM)
}

// aboveSea is a height above the origin, as MAVLink has it.
func (o Origin) aboveSea(upM height.AboveOrigin) height.AboveSea {
	return o.AltitudeM + height.AboveSea(upM)
}

// Geodetic inverts Local. Newton's steps with the ellipsoid's radii of
// curvature for a Jacobian gain three digits or more each over a few kilometres.
func (o Origin) Geodetic(p physics.Position, upM height.AboveOrigin) (latitudeDeg, longitudeDeg float64, amslM height.AboveSea) {
	lat, lon, amslM := o.LatitudeDeg, o.LongitudeDeg, o.aboveSea(upM)
	alt := float64(amslM)
	for range 5 {
		east, north := o.eastNorth(lat, lon, amslM)
		sin, cos := math.Sincos(lat * math.Pi / 180)
		w := 1 - eccentricitySquared*sin*sin
		prime := semiMajorM / math.Sqrt(w)
		meridian := prime * (1 - eccentricitySquared) / w
		lat += (p.NorthM - north) / (meridian + alt) * 180 / math.Pi
		lon += (p.EastM - east) / ((prime + alt) * cos) * 180 / math.Pi
	}
	return lat, math.Remainder(lon, 360), amslM // an area may lie across the 180th meridian
}

// eastNorth returns east and north of the origin by way of earth-centred coordinates.
func (o Origin) eastNorth(latitudeDeg, longitudeDeg float64, amslM height.AboveSea) (eastM, northM float64) {
	x0, y0, z0 := toECEF(o.LatitudeDeg, o.LongitudeDeg, float64(o.AltitudeM))
	x, y, z := toECEF(latitudeDeg, longitudeDeg, float64(amslM))
	dx, dy, dz := x-x0, y-y0, z-z0
	sinLat, cosLat := math.Sincos(o.LatitudeDeg * math.Pi / 180)
	sinLon, cosLon := math.Sincos(o.LongitudeDeg * math.Pi / 180)
	return -sinLon*dx + cosLon*dy, -sinLat*cosLon*dx - sinLat*sinLon*dy + cosLat*dz
}

func toECEF(latitudeDeg, longitudeDeg, altitudeM float64) (x, y, z float64) {
	sinLat, cosLat := math.Sincos(latitudeDeg * math.Pi / 180)
	sinLon, cosLon := math.Sincos(longitudeDeg * math.Pi / 180)
	prime := semiMajorM / math.Sqrt(1-eccentricitySquared*sinLat*sinLat)
	return (prime + altitudeM) * cosLat * cosLon, (prime + altitudeM) * cosLat * sinLon,
		(prime*(1-eccentricitySquared) + altitudeM) * sinLat
}
