package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

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
