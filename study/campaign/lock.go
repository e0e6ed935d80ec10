package campaign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The lock of a name: a key of a bucket that expires. A coordinator that is killed leaves it; the same store's takes it
// over at once, since the journal's own lock says that the one before has ended; another waits until it has expired, or is told who has it.
const (
	lockBucket = "GODWIT_COORDINATORS"
	lockExpiry = 10 * time.Second
	lockRenew  = 2 * time.Second
)

// ErrTaken is a name that another coordinator has.
var ErrTaken = errors.New("another coordinator has the name")

// lock is a name that a coordinator has.
type lock struct {
	kv       jetstream.KeyValue
	name     string
	owner    string
	revision uint64
}

// take takes a name for an owner.
func take(ctx context.Context, js jetstream.JetStream, name, owner string) (*lock, error) {
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: lockBucket, TTL: lockExpiry, Storage: jetstream.MemoryStorage})
	if errors.Is(err, jetstream.ErrBucketExists) {
		kv, err = js.KeyValue(ctx, lockBucket)
	}
	if err != nil {
		return nil, err
	}
	l := &lock{kv: kv, name: name, owner: owner}
	l.revision, err = kv.Create(ctx, name, []byte(owner))
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return l, err
	}
	has, err := kv.Get(ctx, name)
	if err != nil {
		return nil, err // it has expired just now: the next try has it
	}
	if string(has.Value()) != owner {
		return nil, fmt.Errorf("campaign %s: %w: %s; it has it for %v after it ends: give this one another --campaign", name, ErrTaken, has.Value(), lockExpiry)
	}
	l.revision = has.Revision()
	return l, l.renew(ctx)
}

// renew has the name for a while more.
func (l *lock) renew(ctx context.Context) (err error) {
	revision, err := l.kv.Update(ctx, l.name, []byte(l.owner), l.revision)
	if err == nil {
		l.revision = revision
	}
	return err
}

// keep renews the name until ctx ends, and returns where it is another's.
func (l *lock) keep(ctx context.Context) error {
	since := time.Now()
	for {
		if pause(ctx, lockRenew); ctx.Err() != nil {
			return nil
		}
		within, cancel := context.WithTimeout(ctx, asking)
		err := l.renew(within)
		cancel()
		if err == nil {
			since = time.Now()
		} else if time.Since(since) > lockExpiry && ctx.Err() == nil {
			return fmt.Errorf("the lock on campaign %s has expired: %w", l.name, err)
		}
	}
}

// free gives the name up.
func (l *lock) free(ctx context.Context) {
	_ = l.kv.Purge(ctx, l.name, jetstream.LastRevision(l.revision)) // or it expires
}
