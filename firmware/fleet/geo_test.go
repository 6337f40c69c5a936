package fleet

import (
	"math"
	"testing"

	"prefdt/inference/physics"
)

func TestOneArcSecond(t *testing.T) {
	// Published lengths of a WGS84 degree on the ellipsoid: latitude 45 degrees,
	// 111131.78 m of meridian and 78846.81 m of parallel; equator, 110574.28 m
	// and 111319.49 m.
	for _, c := range []struct{ lat, meridian, parallel float64 }{
		{45, 111131.78, 78846.81}, {0, 110574.28, 111319.49},
	} {
		o := Origin{LatitudeDeg: c.lat, LongitudeDeg: 8}
		p, _ := o.Local(c.lat+1.0/3600, 8, 0)
		if math.Abs(p.NorthM*3600-c.meridian) > 0.5 || math.Abs(p.EastM) > 1e-6 {
			t.Errorf("latitude %v: one second north is %v", c.lat, p)
		}
		p, _ = o.Local(c.lat, 8+1.0/3600, 0)
		if math.Abs(p.EastM*3600-c.parallel) > 0.05 {
			t.Errorf("latitude %v: one second east is %v", c.lat, p)
		}
	}
}

func TestGeodeticInvertsLocal(t *testing.T) {
	for _, o := range []Origin{{47.3977, 8.5456, 488}, {-33.9, 151.2, 5}, {0, 179.9999, -20}, {69.6, -18.9, 3000}} {
		for _, p := range []physics.Position{{}, {EastM: 1000}, {NorthM: 1000}, {EastM: -5000, NorthM: 7300}, {EastM: 1000, NorthM: 1000}} {
			lat, lon, amsl := o.Geodetic(p, 100)
			got, up := o.Local(lat, lon, amsl)
			if got.Sub(p).Norm() > 1e-6 || up.Off(100) > 1e-9 || math.Abs(lon) > 180 {
				t.Errorf("%+v: %+v came back as %+v, up %v", o, p, got, up)
			}
			// A wire carries 1e-7 degrees, about a centimetre.
			got, _ = o.Local(math.Round(lat*1e7)/1e7, math.Round(lon*1e7)/1e7, amsl)
			if got.Sub(p).Norm() > 0.01 {
				t.Errorf("%+v: %+v came back over the wire as %+v", o, p, got)
			}
		}
	}
}
