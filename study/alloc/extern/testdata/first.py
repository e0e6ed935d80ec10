"""First fit in lines, for exec: (see Lines), in batches."""
import bisect
import sys

print("batches", flush=True)
starts, ends, live, size = [], [], {}, 0
out = []
for line in sys.stdin:
    if line == "\n":
        sys.stdout.write("".join(out))
        sys.stdout.flush()
        out = []
        continue
    what, *n = line.split()
    n = [int(x) for x in n]
    if what == "open":
        starts, ends, live, size = [], [], {}, n[0]
    elif what == "f":
        if (at := live.pop(n[0], None)) is not None:
            i = bisect.bisect_left(starts, at)
            del starts[i], ends[i]
    else:
        at, (_, want, align, _) = 0, n
        for i, start in enumerate(starts):
            if start - at >= want:
                break
            at = -(-ends[i] // align) * align
        else:
            i = len(starts)
        if i < len(starts) or size - at >= want:
            live[n[0]] = at
            starts.insert(i, at)
            ends.insert(i, at + want)
            out.append(f"{at}\n")
        else:
            out.append("-\n")
