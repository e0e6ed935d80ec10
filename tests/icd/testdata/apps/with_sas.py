# sasmodels: scattering of polydisperse cylinders. Prints OK and the seconds of one round.
import os,time,numpy as np
os.environ.setdefault('SAS_OPENCL','0')
from sasmodels.core import load_model
from sasmodels.direct_model import call_kernel
m=load_model('cylinder',dtype='single',platform='ocl')
q=np.logspace(-3,-1,200)
k=m.make_kernel([q])
for w in range(2):
    s=time.perf_counter()
    for i in range(50): v=call_kernel(k,dict(radius=20,length=400.,radius_pd=0.1,radius_pd_n=20))
    t=(time.perf_counter()-s)/50
assert np.isfinite(v).all() and v[0]>v[-1]>0
print("OK %.5f"%t)
