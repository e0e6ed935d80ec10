# gpyfft: clFFT from Python, compared with numpy. Prints OK and the seconds of one round.
import time, numpy as np, pyopencl as cl, pyopencl.array as cla
from gpyfft.fft import FFT
ctx=cl.Context([cl.get_platforms()[0].get_devices()[-1]]); q=cl.CommandQueue(ctx)
x=np.random.RandomState(0).rand(64,256).astype(np.complex64); d=cla.to_device(q,x); out=cla.empty_like(d)
f=FFT(ctx,q,d,out,axes=(1,))
for w in range(2):
    s=time.perf_counter()
    for i in range(100):
        for e in f.enqueue(): e.wait()
    t=(time.perf_counter()-s)/100
assert abs(out.get()-np.fft.fft(x,axis=1)).max()<1e-2
print("OK %.5f"%t)
