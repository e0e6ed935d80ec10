package backend

import (
	"context"
	"fmt"

	"godwit/mem"
)

type managerKey struct{}
type handleKey struct{}

// WithManager returns a context that carries m, for Default and With. Main's
// context does already.
func WithManager(ctx context.Context, m *Manager) context.Context {
	return context.WithValue(ctx, managerKey{}, m)
}

// ManagerOf is the manager that ctx carries, nil where it carries none.
func ManagerOf(ctx context.Context) *Manager {
	m, _ := ctx.Value(managerKey{}).(*Manager)
	return m
}

// Default is the active device of ctx where name is empty and With has set one,
// else Manager.Default of ctx's manager. It fails with mem.ErrInvalidContext where
// ctx carries no manager.
func Default(ctx context.Context, name string) (*Handle, error) {
	if h := Active(ctx); name == "" && h != nil {
		return h, nil
	}
	m := ManagerOf(ctx)
	if m == nil {
		return nil, fmt.Errorf("device %q: the context carries no manager (see WithManager and Main): %w", name, mem.ErrInvalidContext)
	}
	return m.Default(name)
}

// With returns a context whose active device is the one that name stands for. It
// is Go's form of a scoped, per-goroutine device: the scope is where the context is
// used, and outside it the context from before is as it was.
func With(ctx context.Context, name string) (context.Context, error) {
	h, err := Default(ctx, name)
	if err != nil {
		return ctx, err
	}
	return WithHandle(ctx, h), nil
}

// WithHandle is With for a handle one has.
func WithHandle(ctx context.Context, h *Handle) context.Context {
	ctx = WithManager(ctx, h.Manager())
	return context.WithValue(ctx, handleKey{}, h)
}

// Active is the active device of ctx, nil where With has set none.
func Active(ctx context.Context) *Handle {
	h, _ := ctx.Value(handleKey{}).(*Handle)
	return h
}
