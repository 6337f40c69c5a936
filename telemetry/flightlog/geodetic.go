package flightlog

import "math"

// Origin is the geodetic position that metres east and north count from.
type Origin struct {
	LatitudeDeg  float64 `json:"latitude_deg"`
	LongitudeDeg float64 `json:"longitude_deg"`
	AMSLM        float64 `json:"amsl_m"` // above mean sea level
}

// WGS84.
const (
	semiMajorM          = 6378137.0
	flattening          = 1 / 298.257223563
	eccentricitySquared = flattening * (2 - flattening)
)

// Geodetic returns the position of a point of the tangent plane at the origin, by the
// ellipsoid's radii of curvature and the second-order term of the parallel's bend: within
// centimetres over 3 km.
func (o Origin) Geodetic(eastM, northM, upM float64) (latitudeDeg, longitudeDeg, amslM float64) {
	latitude := o.LatitudeDeg * math.Pi / 180
	amslM = o.AMSLM + upM
	sin := math.Sin(latitude)
	w := 1 - eccentricitySquared*sin*sin
	prime := semiMajorM/math.Sqrt(w) + amslM
	meridian := semiMajorM*(1-eccentricitySquared)/(w*math.Sqrt(w)) + amslM
	point := latitude + northM/meridian - eastM*eastM*math.Tan(latitude)/(2*prime*meridian)
	return point * 180 / math.Pi, o.LongitudeDeg + eastM/(prime*math.Cos(point))*180/math.Pi, amslM
}
