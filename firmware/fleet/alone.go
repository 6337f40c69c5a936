package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"prefdt/firmware/envelope"
	"prefdt/firmware/height"
	"prefdt/inference/physics"
)

// What an aircraft does when it is left alone follows from its parameters: Alone says what, and PathAlone where it is then, and
// when. Others keep clear of that (possiblePath), the reserve pays for it (package account), `leader check` compares it with the
// others' (ReturnsApart), and docs/hardware.md has it as a table.

// Left is a way to be left alone.
type Left uint8

const (
	LeftByStream  Left = iota // setpoints end, and the leader's HEARTBEATs go on
	LeftByLink                // nothing of the leader comes any more: its link is lost, or the leader is dead
	LeftByBattery             // its battery is low
	LeftByFence               // it is beyond its own fence
)

func (l Left) String() string {
	return [...]string{"setpoints end", "link lost, leader dead", "low battery", "its own fence"}[l]
}

// Alone is what an aircraft does after a while: until then it stays, or flies on.
type Alone struct {
	Role     Role // RoleHold, RoleReturn or RoleLand
	AfterS   float64
	Retraces bool // it returns on the way on which it came or, where it does not remember that, as otherwise
}

// failsafe is what an autopilot does in one way of being left alone, by the value of a parameter.
type failsafe struct {
	why       Left
	parameter string // empty: it does always the same, does[0]
	value     func(*Parameters) int
	does      map[int]Alone // a value that is not in it does nothing
	after     string        // the parameter that says after how long; empty: at once
	afterS    func(*Parameters) float64
	in        []Role // in a mode of these it acts
}

// ledRoles are the roles of modes in which it is the leader's, or holds.
var ledRoles = []Role{RoleCommanded, RoleTakeoff, RoleHold}

// Alone is what an aircraft in a mode of a role does when it is left alone: it may stay as it is.
func (p *Parameters) Alone(why Left, in Role) Alone {
	for _, f := range p.kind().traits().failsafes {
		if does, acts := f.does[f.value(p)]; f.why == why && acts && slices.Contains(f.in, in) {
			if f.afterS != nil {
				does.AfterS = f.afterS(p)
			}
			return does
		}
	}
	return Alone{Role: in}
}

// returnsAlone is whether it flies home by itself in any way of being left alone.
func (p *Parameters) returnsAlone() bool {
	return slices.ContainsFunc(p.kind().traits().failsafes, func(f failsafe) bool {
		return p.Alone(f.why, RoleCommanded).Role == RoleReturn
	})
}

// text is a failsafe in the table of docs/hardware.md.
func (f *failsafe) text() string {
	var does []string
	for value := range 10 {
		if x, acts := f.does[value]; acts {
			does = append(does, fmt.Sprintf("%d %s%s", value, x.Role, map[bool]string{true: " as it came"}[x.Retraces]))
		}
	}
	text := strings.Join(does, ", ")
	if f.after != "" {
		text += ", after `" + f.after + "`"
	}
	if f.parameter == "" {
		return strings.TrimPrefix(text, "0 ")
	}
	return "`" + f.parameter + "`: " + text
}

// Waypoint is a corner of a path in time.
type Waypoint struct {
	AfterS   float64 // since it was left alone
	Position physics.Position
	UpM      height.AboveGround // of its home
}

// PathAlone is the path in time of an aircraft that is left alone in flight, to where it stays: in the air, or on the ground.
func (v *View) PathAlone(why Left) (path []Waypoint) {
	p, at := &v.Params, Waypoint{Position: v.Position, UpM: v.UpM.Over(v.GroundUpM)}
	does := p.Alone(why, RoleCommanded)
	to := func(seconds float64, position physics.Position, upM height.AboveGround) {
		at = Waypoint{at.AfterS + seconds, position, upM}
		path = append(path, at)
	}
	to(0, at.Position, at.UpM)
	to(does.AfterS, at.Position, at.UpM)
	if does.Role == RoleReturn && v.Home != nil {
		wayM := v.Home.Sub(v.Position).Norm()
		if upM := p.returnUpM(wayM, at.UpM); upM > at.UpM {
			to(float64(upM-at.UpM)/p.climbMPS(), at.Position, upM)
		}
		to(wayM/p.returnMPS(), *v.Home, at.UpM)
		to(p.kind().traits().waitsOverHomeS, *v.Home, at.UpM)
	}
	if does.Role == RoleReturn || does.Role == RoleLand {
		to(p.DescentS(at.UpM), at.Position, 0)
	}
	return path
}

// returnUpM is how high above its home it returns, from a way off and a height.
func (p *Parameters) returnUpM(wayM float64, upM height.AboveGround) height.AboveGround {
	returnM := height.AboveGround(p.ReturnUpM)
	if p.ConeSlope > 0 {
		returnM = min(returnM, height.AboveGround(p.ConeSlope*wayM))
	}
	if p.FenceEnabled != 0 && p.FenceTypes&fenceHeight != 0 && p.FenceHeightM > 0 {
		returnM = min(returnM, p.FenceHeightM)
	}
	return max(upM, returnM)
}

func (p *Parameters) climbMPS() float64 { return positiveOr(p.ClimbMPS, p.kind().traits().climbMPS) }

func (p *Parameters) returnMPS() float64 {
	return positiveOr(p.ReturnMPS, p.kind().traits().returnMPS(p))
}

// returnsApartM is what keeps two apart that return by themselves: height errors of 1 m each, and 3 m.
const returnsApartM = 5

// ReturnsApart says which aircraft can meet others when all are left alone at once over the area, at a height above the origin,
// and what to set: nothing where none can. At heights of their own above the mission's, to which they climb first, no way crosses
// another at its height; and the one that begins to climb later flies lower, so that it passes no other's height when that is there.
// Where one lands another may still pass, over its home and below it: so those whose homes are farther out fly higher.
func ReturnsApart(views []View, altitudeM float64) (meet []int, set []string) {
	var order []*View
	for i := range views {
		if v := &views[i]; v.Received && v.Params.returnsAlone() {
			order = append(order, v)
		}
	}
	middle := physics.Position{}
	for _, v := range order {
		middle = middle.Add(v.Position.Scale(1 / float64(len(order))))
	}
	upM := func(v *View) float64 { return float64(v.GroundUpM) + float64(v.Params.returnUpM(math.Inf(1), 0)) }
	beginsS := func(v *View) float64 {
		return v.Params.Alone(LeftByLink, RoleCommanded).AfterS + returnsApartM/v.Params.climbMPS()
	}
	slices.SortFunc(order, func(a, b *View) int {
		return cmp.Or(cmp.Compare(beginsS(b), beginsS(a)), cmp.Compare(a.Position.Sub(middle).Norm(), b.Position.Sub(middle).Norm()),
			a.Number-b.Number)
	})
	const sameS = 0.5
	meets := func(v, o *View) bool { // at the height of v, whether that is reached by both or passed by the other later
		return upM(o) >= upM(v) && (upM(o)-upM(v) < returnsApartM || beginsS(o) > beginsS(v)+sameS)
	}
	for i, v := range order {
		if upM(v) < altitudeM+returnsApartM || v.Params.ConeSlope > 0 ||
			slices.ContainsFunc(order, func(o *View) bool { return o != v && (meets(v, o) || meets(o, v)) }) {
			meet = append(meet, v.Number)
		}
		overHomeM := altitudeM + returnsApartM*float64(i+1) - float64(v.GroundUpM)
		set = append(set, fmt.Sprintf("%s of %d", v.Params.kind().traits().returnsAt(math.Ceil(overHomeM)), v.Number))
	}
	if len(order) < 2 || len(meet) == 0 {
		return nil, nil
	}
	return meet, set
}

// possiblePath has the corners of the path on which it may be, the last of them its
// likeliest position. A silent aircraft may have stopped at its last position or flown
// on, for as long as its own hold takes; and where it comes home by itself, it may be
// anywhere on the way there. One that brakes is still to fly on.
func (a *aircraft) possiblePath(now float64) []physics.Position {
	switch at := a.positionAt(now); {
	case !a.located:
		return a.lastKnownTrack
	case a.silent(now):
	case a.brakes():
		return []physics.Position{at.Add(a.onwards(a.params.kind().fliesOnM(&a.params, a.velocity.Norm(), false))), at}
	case a.role() == RoleReturn && a.inAir() && a.home != nil:
		return a.returnsNext(at)
	default:
		return []physics.Position{at}
	}
	path := []physics.Position{a.position, a.flownTo(now)}
	if does := a.doneAlone(now); a.home != nil && does.Role == RoleReturn {
		if does.Retraces {
			path = append(slices.Clone(a.cameBy), path...)
		}
		path = append(path, *a.home)
	}
	return path
}

// doneAlone is what it does by now, if it was left alone when its last position was received.
func (a *aircraft) doneAlone(now float64) Alone {
	in, silentS := a.role(), now-a.positionS
	if in == RoleReturn {
		return Alone{Role: in, Retraces: a.retraces()}
	}
	does := a.params.Alone(LeftByLink, in)
	switch {
	case silentS <= max(does.AfterS, staleAfterS): // until then setpoints are sent
		return Alone{Role: in}
	case does.Role == RoleHold && a.mayBeLow(now):
		return a.params.Alone(LeftByBattery, in)
	}
	return does
}

// mayBeLow is whether its pack may be low by now, by its last charge and what was drawn since, with some to spare.
func (a *aircraft) mayBeLow(now float64) bool {
	const criticalCharge, spare = 0.07, 0.1
	drawn := (a.meter.DrawnJ(now) - a.meter.LastReading().ReadJ) / a.meter.CapacityJ
	return !(a.charge-drawn > positiveOr(a.params.CriticalCharge, criticalCharge)+spare)
}

// flownTo is how far a silent aircraft may have flown by now.
func (a *aircraft) flownTo(now float64) physics.Position {
	speed := a.velocity.Norm()
	onM := speed * staleAfterS // of one that its pilot flies nothing more is known
	if r := a.role(); r == RoleCommanded || r == RoleHold || r == RoleLand {
		onM = math.Max(onM, a.params.kind().fliesOnM(&a.params, speed, r == RoleCommanded))
	}
	return a.position.Add(a.onwards(min(speed*max(now-a.positionS, 0), onM)))
}

// onwards is a way in the direction of its velocity.
func (a *aircraft) onwards(wayM float64) physics.Position {
	return a.velocity.Scale(wayM / math.Max(a.velocity.Norm(), 1e-9))
}

// brakes is whether its own hold, or its landing, is about to stop it.
func (a *aircraft) brakes() bool {
	r := a.role()
	return a.inAir() && (r == RoleHold || r == RoleLand) && a.velocity.Norm() > stillMPS
}

// returnsNext has the corners of the way on which an aircraft that returns by itself may come in the next seconds, and then where it
// is: it turns and speeds up without a word.
func (a *aircraft) returnsNext(at physics.Position) (path []physics.Position) {
	const aheadS, gainsMPS = 4.5, 4 // speed gained, in the mean of these seconds
	leftM := aheadS * min(a.velocity.Norm()+gainsMPS, positiveOr(a.params.SpeedMaxMPS, 15))
	corners := []physics.Position{*a.home}
	if a.retraces() {
		corners = append(corners, a.cameBy...)
	}
	path = append(path, at)
	for _, corner := range slices.Backward(corners) {
		way := corner.Sub(path[len(path)-1])
		share := min(1, leftM/math.Max(way.Norm(), 1e-9))
		path = append(path, path[len(path)-1].Add(way.Scale(share)))
		if leftM -= way.Norm(); leftM <= 0 {
			break
		}
	}
	slices.Reverse(path)
	return path
}

// retraces is whether it returns in another mode than straight home.
func (a *aircraft) retraces() bool {
	return a.role() == RoleReturn && a.mode != a.params.kind().traits().modes[RoleReturn]
}

const cornerM = 5.0 // between two corners of a way that is remembered

// rememberWay remembers the way on which it came, without its loops, where its autopilot does so too: as exactly as that, or with
// more of them. After mostCorners that remembers none any more, and returns straight.
func (a *aircraft) rememberWay() {
	const meetsM, backM, mostCorners = 1, 3, 4096
	switch {
	case !a.armed || !a.params.kind().traits().retraces:
		a.cameBy = nil
		return
	case len(a.cameBy) == mostCorners || len(a.cameBy) > 0 && a.position.Sub(a.cameBy[len(a.cameBy)-1]).Norm() < cornerM:
		return
	}
	within := float64(meetsM)
	if a.retraces() {
		within = backM
	}
	if i := slices.IndexFunc(a.cameBy, func(p physics.Position) bool { return p.Sub(a.position).Norm() < within }); i >= 0 {
		a.cameBy = a.cameBy[:i]
	}
	a.cameBy = append(a.cameBy, a.position)
}

// corners are those of a way without which it would be off by more than a metre (Douglas and Peucker 1973): what is saved of it.
func corners(way []physics.Position) []physics.Position {
	const offM = 1.0
	if len(way) < 3 {
		return way
	}
	last := len(way) - 1
	at, mostM := 0, offM
	for i := 1; i < last; i++ {
		if d := distanceToPath(way[i], []physics.Position{way[0], way[last]}); d > mostM {
			at, mostM = i, d
		}
	}
	if at == 0 {
		return []physics.Position{way[0], way[last]}
	}
	return append(corners(way[:at+1]), corners(way[at:])[1:]...)
}

// appendWay appends the straight way to a corner, as it is remembered.
func appendWay(way []physics.Position, to physics.Position) []physics.Position {
	if len(way) > 0 {
		from := way[len(way)-1]
		d := to.Sub(from)
		steps := math.Ceil(d.Norm() / cornerM)
		for k := 1.0; k < steps; k++ {
			way = append(way, from.Add(d.Scale(k/steps)))
		}
	}
	return append(way, to)
}

func distanceToPath(p physics.Position, path []physics.Position) float64 {
	nearest, _ := envelope.NearestOnPath(p, path)
	return p.Sub(nearest).Norm()
}
