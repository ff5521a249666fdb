package sim_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// chosen is a source of random numbers that bytes choose, as long as there are some.
type chosen struct {
	bytes []byte
	rest  rand.PCG
}

func (c *chosen) Uint64() uint64 {
	if len(c.bytes) < 8 {
		return c.rest.Uint64()
	}
	n := binary.LittleEndian.Uint64(c.bytes)
	c.bytes = c.bytes[8:]
	return n
}

// Bytes choose a plan, one decision by each eight: to change one changes one decision, where
// another seed changes them all.
func FuzzPlan(f *testing.F) {
	for seed := range uint64(20) {
		pcg := rand.NewPCG(seed, 0x5e1f)
		var bytes []byte
		for range 40 * (seed + 1) {
			bytes = binary.LittleEndian.AppendUint64(bytes, pcg.Uint64())
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		p := planOf(0, rand.New(&chosen{bytes: bytes}))
		w := run(t, p, keep{selection(nil).orAll(len(p.faults)), selection(nil).orAll(len(p.actors))})
		if len(w.failures) > 0 {
			t.Error(w.report())
		}
	})
}
