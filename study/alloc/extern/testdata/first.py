"""First fit in lines, for exec: (see Protocol)."""
import sys

live, size = {}, 0
for line in sys.stdin:
    what, *n = line.split()
    n = [int(x) for x in n]
    if what == "open":
        live, size = {}, n[0]
    elif what == "f":
        live.pop(n[0], None)
    else:
        at, (_, want, align, _) = 0, n
        for start, length in sorted(live.values()):
            if start - at >= want:
                break
            at = (start + length + align - 1) // align * align
        if size - at >= want:
            live[n[0]] = (at, want)
            print(at, flush=True)
        else:
            print("-", flush=True)
