"""First fit in lines that breaks its contract: faulty.py overlap, hang or nonsense.

overlap: a chunk that comes into the place of a freed one is put there though it is longer.
hang: a free between two holes does not end. nonsense: three chunks of one size are too many.
"""
import sys
import time

bug = sys.argv[1]
live, size, gone = {}, 0, []
for line in sys.stdin:
    what, *n = line.split()
    n = [int(x) for x in n]
    if what == "open":
        live, size, gone = {}, n[0], []
    elif what == "f":
        if n[0] in live:
            at, length = live.pop(n[0])
            starts = [a for a, _ in gone]
            if bug == "hang" and at + length in starts and any(a + l == at for a, l in gone):
                time.sleep(3600)
            gone.append((at, length))
    else:
        at, (_, want, align, _) = 0, n
        if bug == "overlap" and gone:
            at = gone.pop()[0]
        else:
            for start, length in sorted(live.values()):
                if start - at >= want:
                    break
                at = (start + length + align - 1) // align * align
        if bug == "nonsense" and [l for _, l in live.values()].count(want) >= 2:
            print("three?", flush=True)
        elif size - at >= want:
            live[n[0]] = (at, want)
            print(at, flush=True)
        else:
            print("-", flush=True)
