package physics

import "math"

const speedOfLightMPS = 299792458

// Channel is the probabilistic air-ground channel of Al-Hourani et al. (LAP,
// urban), with the uplink of eq. (rate).
type Channel struct {
	CarrierHz float64          `json:"carrier_hz" yaml:"carrier_hz"`
	UrbanA    float64          `json:"urban_a" yaml:"urban_a"` // P_LoS = 1/(1+a exp(-b(theta-a))), theta in degrees
	UrbanB    float64          `json:"urban_b" yaml:"urban_b"`
	LoS       ChannelCondition `json:"los" yaml:"los"`
	NLoS      ChannelCondition `json:"nlos" yaml:"nlos"`

	BandwidthHz float64 `json:"bandwidth_hz" yaml:"bandwidth_hz"` // B
	TransmitW   float64 `json:"transmit_w" yaml:"transmit_w"`     // P_u
	NoiseDBm    float64 `json:"noise_dbm" yaml:"noise_dbm"`       // sigma^2
}

// ChannelCondition holds the parameters of the channel with line of sight, or without.
type ChannelCondition struct {
	ExcessDB  float64 `json:"excess_db" yaml:"excess_db"` // attenuation beyond free space
	ShadowDB  float64 `json:"shadow_db" yaml:"shadow_db"` // standard deviation of log-normal shadowing
	NakagamiM float64 `json:"nakagami" yaml:"nakagami"`   // fading parameter m, a positive integer
}

// LoSProbability returns the probability of line of sight at a horizontal
// distance from the point below the aircraft.
func (c Channel) LoSProbability(horizontalM, altitudeM float64) float64 {
	theta := math.Atan2(altitudeM, horizontalM) * 180 / math.Pi
	return 1 / (1 + c.UrbanA*math.Exp(-c.UrbanB*(theta-c.UrbanA)))
}

// FreeSpaceGain returns the power gain (wavelength / 4 pi d)^2 at the distance d that
// a horizontal distance and an altitude make.
func (c Channel) FreeSpaceGain(horizontalM, altitudeM float64) float64 {
	x := speedOfLightMPS / (4 * math.Pi * c.CarrierHz)
	return x * x / (horizontalM*horizontalM + altitudeM*altitudeM)
}

// MeanGain returns the expected power gain, over line of sight, shadowing and
// fading. It is used where no gain was reported.
func (c Channel) MeanGain(horizontalM, altitudeM float64) float64 {
	los := c.LoSProbability(horizontalM, altitudeM)
	return c.FreeSpaceGain(horizontalM, altitudeM) * (los*c.LoS.meanGain() + (1-los)*c.NLoS.meanGain())
}

// meanGain is the expected gain relative to free space: log-normal shadowing has
// mean exp((s ln10/10)^2 / 2), Nakagami power fading has mean 1.
func (l ChannelCondition) meanGain() float64 {
	s := l.ShadowDB * math.Ln10 / 10
	return math.Exp(-l.ExcessDB*math.Ln10/10 + s*s/2)
}

// TypicalGain returns the geometric mean of the gain relative to free space: that of
// log-normal shadowing is 1.
func (l ChannelCondition) TypicalGain() float64 {
	return math.Pow(10, -l.ExcessDB/10) * math.Exp(l.digamma()) / l.NakagamiM
}

// TypicalFading returns the geometric mean of Nakagami power fading, exp(psi(m)) / m.
func (l ChannelCondition) TypicalFading() float64 { return math.Exp(l.digamma()) / l.NakagamiM }

// digamma returns psi(m) of the integer m.
func (l ChannelCondition) digamma() float64 {
	const gamma = 0.5772156649015329 // psi(1) = -gamma
	psi := -gamma
	for k := 1.0; k < l.NakagamiM; k++ {
		psi += 1 / k
	}
	return psi
}

// RateBPS returns the uplink rate over a bandwidth, eq. (rate).
func (c Channel) RateBPS(gain, bandwidthHz float64) float64 {
	return bandwidthHz * math.Log2(1+c.TransmitW*gain/c.noiseW())
}

// GainOf returns the gain of which RateBPS is a rate.
func (c Channel) GainOf(rateBPS, bandwidthHz float64) float64 {
	return math.Expm1(rateBPS/bandwidthHz*math.Ln2) * c.noiseW() / c.TransmitW
}

// noiseW returns the power of the noise. That of the paper's channel is computed once: a power takes as long as a rate's logarithm.
func (c Channel) noiseW() float64 {
	if c.NoiseDBm == paperNoiseDBm {
		return paperNoiseW
	}
	return dBmToW(c.NoiseDBm)
}

const paperNoiseDBm = -110

var paperNoiseW = dBmToW(paperNoiseDBm)

func dBmToW(dBm float64) float64 { return math.Pow(10, dBm/10) / 1000 }
