package prefdt

import "prefdt/inference/model"

// Weights are the network's parameters. T is what a parameter is where they are used: its
// shape, its numbers and their gradient in training, a packed matrix in Net, the name of a
// value in Graph.
type Weights[T any] struct {
	UserQuery, UserKey, UserValue T // each aircraft gathers its users
	UserOut                       model.Linear[T]

	StateAircraft           model.Linear[T] // of the state token: aircraft,
	StatePooled, StateOmega T               // their users, the preference
	ReturnToken             model.Linear[T]
	ActionToken             model.Linear[T]
	ActionOmega             T
	SlotEmbedding           T // a row for each slot of a mission
	Blocks                  []model.Block[T]
	Final                   model.Norm[T] // to e

	FlightHidden, Flight model.Linear[T]
	Choice, Offload      UserHead[T]
}

// UserHead is a head on [e; z], a row for each user.
type UserHead[T any] struct {
	Context T               // of e
	User    model.Linear[T] // of z
	Out     model.Linear[T]
}

// List returns every parameter in the order of checkpoints, which is that of the fields.
func (w *Weights[T]) List() []*T { return model.Parameters[T](w) }

// layout returns the name and the shape of every parameter.
func (f *Form) layout() *Weights[model.Tensor] {
	d, p, m, features := f.Width, f.PairWidth, f.Aircraft, len(f.UserFeatures)
	row := func(name string) model.Tensor { return model.Tensor{Name: name, Rows: 1, Cols: d, InitStdDev: 1} }
	head := func(name string, out model.Linear[model.Tensor]) UserHead[model.Tensor] {
		return UserHead[model.Tensor]{
			Context: model.MatrixTensor(name+".e", d, p), User: model.LinearTensors(name+".z", name+".b", m*features, p), Out: out,
		}
	}
	embedding := model.MatrixTensor("time.e", f.Slots, d)
	embedding.InitStdDev = 0.02 // GPT's
	shared := f.Arch.Layout()
	return &Weights[model.Tensor]{
		UserQuery: model.MatrixTensor("pool.q", AircraftFeatures, d), UserKey: model.MatrixTensor("pool.k", features, d),
		UserValue: model.MatrixTensor("pool.v", features, d),
		UserOut:   model.LinearTensors("pool.o", "pool.ob", d, d),

		StateAircraft: model.LinearTensors("state.z", "state.b", m*AircraftFeatures, d), StatePooled: model.MatrixTensor("state.p", m*d, d),
		StateOmega:  row("state.w"),
		ReturnToken: model.LinearTensors("return.w", "return.b", ReturnFeatures, d),
		ActionToken: model.LinearTensors("action.x", "action.b", m*ActionFeatures, d), ActionOmega: row("action.w"),
		SlotEmbedding: embedding, Blocks: shared.Blocks, Final: shared.Final,

		FlightHidden: model.LinearTensors("flight.h", "flight.hb", d, d), Flight: model.OutputTensors("flight.w", "flight.b", d, 2*m),
		Choice:  head("choice", model.OutputTensors("choice.o", "choice.ob", p, m+1)),
		Offload: head("rho", model.OutputTensors("rho.o", "rho.ob", p, 1)),
	}
}

// Tensors lists every parameter, in the order of checkpoints.
func (f *Form) Tensors() []model.Tensor { return model.Tensors(f.layout().List()) }

// Parameters counts the values of all tensors.
func (f *Form) Parameters() (n int) {
	for _, t := range f.Tensors() {
		n += t.Size()
	}
	return n
}

// MapWeights makes each parameter from its tensor, in that order.
func MapWeights[T any](f *Form, make1 func(model.Tensor) T) *Weights[T] {
	w := &Weights[T]{Blocks: make([]model.Block[T], f.Layers)}
	to := w.List()
	for i, t := range f.layout().List() {
		*to[i] = make1(*t)
	}
	return w
}
