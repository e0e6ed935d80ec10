# compyle: an elementwise kernel and a reduction that it makes of Python. Prints OK and the seconds of one round.
import time, numpy as np
from compyle.api import annotate, Elementwise, Reduction, Scan, wrap, get_config
from compyle.low_level import *
get_config().use_opencl=True; get_config().use_double=True
from compyle.opencl import set_context, set_queue
import pyopencl as cl
ctx=cl.Context([cl.get_platforms()[0].get_devices()[-1]]); set_context(ctx); set_queue(cl.CommandQueue(ctx))
@annotate(i='int', doublep='x, y, out')
def axpb(i,x,y,out):
    out[i]=2.0*x[i]+y[i]
x=np.arange(100000.0); y=x*3; out=np.zeros_like(x)
X,Y,O=wrap(x,y,out,backend='opencl')
f=Elementwise(axpb,backend='opencl'); r=Reduction('a+b',backend='opencl')
for w in range(2):
    s=time.perf_counter()
    for i in range(100): f(X,Y,O); v=r(O)
    t=(time.perf_counter()-s)/100
O.pull(); assert (O.data==5*np.arange(100000.0)).all() and v==5*np.arange(100000.0).sum()
print("OK %.5f"%t)
