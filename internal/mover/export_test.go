package mover

import "godwit/internal/storage"

// LoseHostMemory leaves the mover without host memory beside what it has, until the
// returned function is called.
func (m *Mover) LoseHostMemory() (giveBack func()) {
	own, none := m.own, storage.NewHost("none", 1)
	m.own = none
	return func() { m.own = own }
}

// Starved is how many rings wait for staging.
func (m *Mover) Starved() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.starved)
}
