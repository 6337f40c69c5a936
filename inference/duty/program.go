package duty

import (
	"math"

	"prefdt/inference/reuse"
)

// program is the linear program of a plan, and its solution: the greatest saving of delay by
// slots of (aircraft in the air, price), within the slots left, the fleet's joules and each pack's.
type program struct {
	savedS float64
	slots  []float64 // by aircraft in the air, less one

	levels []column
	rows   int       // limits: the slots, the fleet, the packs in the order of leaving
	width  int       // columns: slots of (aircraft in the air, price), one slack a row, the right side
	table  []float64 // (rows+1, width); the last row has the reduced costs
	basis  []int
	duals  []float64
	packAt []int // row of a pack by index of the aircraft; 0: none
	fleet  int   // row of the fleet; 0: none
}

// column is a variable: slots with so many in the air, each of which saves so much delay.
type column struct {
	up     int
	savedS float64
}

// mostS is what a slot with those in the air that have to stay is worth in the program, beyond what it saves: more than
// any slot can.
const mostS = 1000.0

// moveSlots is what is kept for the flight of those that stay to another place after one has left, and
// for what a slot with few in the air takes more than its mean, in slots of flight.
const (
	moveSlots     = 2.5 // of the fleet's total
	packMoveSlots = 1.0 // of a pack
)

// solve plans for the up aircraft of the planner's order, of which at least least fly in every
// slot; it reports whether the joules last for that.
func (x *program) solve(p *Planner, in *Input, up, least int) (lasts bool) {
	c, slots := &p.curves, float64(in.Slots-in.Slot)
	grid := len(c.pricesSPerJ)
	x.packAt = reuse.Slice(x.packAt, len(in.Aircraft))
	x.rows, x.fleet = 1, 0
	fleetJ := p.fleetJ(in)
	if !math.IsInf(in.FleetJ, 1) {
		x.fleet = x.rows
		x.rows++
	}
	for _, i := range p.order {
		if !math.IsInf(in.Aircraft[i].LeftJ, 1) {
			x.packAt[i] = x.rows
			x.rows++
		}
	}
	columns := 0
	for j := 1; j <= up; j++ {
		for split := range c.splitsOf(j) {
			columns += grid / c.step(j, split)
		}
	}
	x.width = columns + x.rows + 1
	x.table = reuse.Slice(x.table, (x.rows+1)*x.width)
	x.basis = reuse.Slice(x.basis, x.rows)
	right := x.width - 1
	at := func(r, k int) *float64 { return &x.table[r*x.width+k] }
	unit := max(in.FlightW, 1) // joules are counted in slots of flight
	*at(0, right) = slots
	keptJ := 0.0
	if least < up && up > 1 {
		if keptJ = moveSlots * unit; x.fleet == 0 {
			keptJ = packMoveSlots * unit
		}
	}
	if x.fleet > 0 {
		floorJ := float64(max(p.wanted(in), least)) * slots * unit
		*at(x.fleet, right) = max(fleetJ-keptJ, min(fleetJ, floorJ), 0) / unit
	}
	lasts = x.fleet == 0 || fleetJ >= float64(least)*slots*unit
	for k, i := range p.order {
		if r := x.packAt[i]; r > 0 {
			ownJ := max(in.Aircraft[i].LeftJ-p.afterJ(in, i)-p.marginJ(in, &in.Aircraft[i]), 0)
			*at(r, right) = ownJ / unit
			if k > 0 { // it moves when the first has left
				*at(r, right) = max(ownJ-keptJ, min(ownJ, slots*unit)) / unit
			}
			lasts = lasts && (up-k > least || ownJ >= slots*unit)
		}
	}
	x.levels = x.levels[:0]
	for j := 1; j <= up; j++ {
		for split := range c.splitsOf(j) {
			costs := &c.levels[j-1].Splits[split]
			for g := 0; g < grid; g += c.step(j, split) {
				k := len(x.levels)
				x.levels = append(x.levels, column{j, costs.SavedS[g]})
				*at(0, k) = 1
				if x.fleet > 0 {
					*at(x.fleet, k) = (float64(j)*in.FlightW + costs.FirstJ[g] + float64(j-1)*costs.RestJ[g]) / unit
				}
				for n, i := range p.order[up-j:] {
					if r := x.packAt[i]; r > 0 {
						edgeJ := costs.RestJ[g]
						if n == 0 {
							edgeJ = costs.FirstJ[g]
						}
						*at(r, k) = (in.FlightW + edgeJ) / unit
					}
				}
				worthS := costs.SavedS[g] + c.levels[j-1].LocalS*coverShare(j, in.LeastUp)
				switch {
				case j < least:
					worthS = -1 // never
				case lasts && least > 0:
					worthS += mostS
				}
				*at(x.rows, k) = -worthS
			}
		}
	}
	for r := range x.rows {
		*at(r, columns+r) = 1
		x.basis[r] = columns + r
	}
	x.pivotAll()
	x.slots, x.savedS = reuse.Slice(x.slots, up), 0
	for r, k := range x.basis {
		if k < columns {
			n := *at(r, right)
			x.slots[x.levels[k].up-1] += n
			x.savedS += n * x.levels[k].savedS
		}
	}
	x.duals = reuse.Slice(x.duals, x.rows)
	for r := range x.rows {
		x.duals[r] = *at(x.rows, columns+r) / unit
	}
	return lasts
}

// coverShare is what the wish for least aircraft in the air prices a slot with up of them at, over one with one, in what its
// tasks take locally: each that is missing costs an equal part. Of the last one the part is in the delay.
func coverShare(up, least int) float64 {
	least = max(least, 1)
	return float64(min(up, least)-1) / float64(least)
}

// pivotAll is the primal simplex method from the slack basis. It takes the column of the
// greatest gain, and after many steps the first one (Bland 1977), which ends in any case.
func (x *program) pivotAll() {
	const tiny = 1e-9
	right, costs := x.width-1, x.table[x.rows*x.width:]
	for step := range 40 * x.width {
		enter, least := -1, -tiny
		for k := range right {
			if costs[k] < least {
				enter, least = k, costs[k]
				if step > 4*x.width {
					break
				}
			}
		}
		if enter < 0 {
			return
		}
		leave, ratio := -1, math.Inf(1)
		for r := range x.rows {
			if a := x.table[r*x.width+enter]; a > tiny {
				if q := x.table[r*x.width+right] / a; q < ratio-1e-12 || q <= ratio && leave >= 0 && x.basis[r] < x.basis[leave] {
					leave, ratio = r, q
				}
			}
		}
		if leave < 0 { // no limit: it cannot be, each column has the slots' row
			return
		}
		x.pivot(leave, enter)
	}
}

func (x *program) pivot(leave, enter int) {
	row := x.table[leave*x.width:][:x.width]
	scale := 1 / row[enter]
	for k := range row {
		row[k] *= scale
	}
	for r := range x.rows + 1 {
		if r == leave {
			continue
		}
		other := x.table[r*x.width:][:x.width]
		if f := other[enter]; f != 0 {
			for k, a := range row {
				other[k] -= f * a
			}
		}
	}
	x.basis[leave] = enter
}

// packPriceSPerJ is what a joule of an aircraft's pack is worth, beyond the fleet's.
func (x *program) packPriceSPerJ(i int) float64 {
	if r := x.packAt[i]; r > 0 {
		return x.duals[r]
	}
	return 0
}

// priceSPerJ is what a joule of an aircraft is worth.
func (x *program) priceSPerJ(i int) float64 {
	price := x.packPriceSPerJ(i)
	if x.fleet > 0 {
		price += x.duals[x.fleet]
	}
	return price
}
