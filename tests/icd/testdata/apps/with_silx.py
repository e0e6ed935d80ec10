# silx: byte-offset compression and statistics of an image, on the last device. Prints OK and the seconds of one round.
import time, numpy as np
from silx.opencl.codec.byte_offset import ByteOffset
from silx.opencl.statistics import Statistics
import silx, pyopencl as cl
d=cl.get_platforms()[0].get_devices()[-1]
ctx=cl.Context([d])
rng=np.random.RandomState(0); img=rng.randint(0,1000,(256,256)).astype(np.int32)
bo=ByteOffset(img.nbytes, img.size, ctx=ctx)
st=Statistics(size=img.size, template=img.astype(np.float32), ctx=ctx)
for w in range(2):
    s=time.perf_counter()
    for i in range(20):
        enc=bo.encode(img); dec=bo(enc.get().tobytes()); r=st(img.astype(np.float32))
    e=time.perf_counter()-s
assert (np.asarray(dec.get() if hasattr(dec,'get') else dec).reshape(img.shape)==img).all()
assert abs(float(r[4] if len(r)>4 else r.mean)-img.mean())<1e-1, (r, img.mean())
print("OK %.4f"%(e/20))
