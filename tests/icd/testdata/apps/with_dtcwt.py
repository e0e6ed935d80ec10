# dtcwt: dual-tree complex wavelets of an image, compared with numpy. Prints OK and the seconds of one round.
import time, numpy as np, dtcwt, pyopencl as cl
from dtcwt.opencl import Transform2d
import dtcwt.numpy
q=cl.CommandQueue(cl.Context([cl.get_platforms()[0].get_devices()[-1]]))
im=np.random.RandomState(0).rand(256,256).astype(np.float32)
t=Transform2d(queue=q); ref=dtcwt.numpy.Transform2d().forward(im,nlevels=3)
for w in range(2):
    s=time.perf_counter()
    for i in range(5): p=t.forward(im,nlevels=3); hp=[np.array(x) for x in p.highpasses]
    e=(time.perf_counter()-s)/5
for a,b in zip(hp,ref.highpasses): assert abs(a-b).max()<1e-3
print("OK %.4f"%e)
