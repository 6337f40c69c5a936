//go:build real

package bench

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"prefdt/firmware/worker/function"
	"prefdt/offline/offlinetest"
)

// Tasks go through a worker's door, and what they come to is between nothing and all.
func TestMeasureTask(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(serveSpins))
	defer service.Close()
	f := function.Config{ID: "http", HTTP: service.URL}
	x := offlinetest.Must(measureTask(t.Context(), f, "", t.TempDir(), 3, 0.5))(t)
	if !(x.Goodput > 0 && x.P50 > 0 && x.P95 >= x.P50 && x.Fairness > 0 && x.Fairness < 1.001 && x.Users == 3 && x.Load == 0.5) {
		t.Errorf("%+v", x)
	}
	late := lateness(100 * time.Millisecond)
	if slices.Min(late) < 0 || len(late) != 10 {
		t.Errorf("late by %v", late)
	}
}
