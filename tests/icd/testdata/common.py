"""What the scripts share: a context with every device of the platform named on
the command line, a queue for each, and numpy to compare with."""

import os
import sys

import numpy as np
import pyopencl as cl


def house(properties=0):
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    for platform in cl.get_platforms():
        if part in platform.name:
            ctx = cl.Context(platform.get_devices())
            return ctx, [cl.CommandQueue(ctx, d, properties=properties) for d in ctx.devices]
    sys.exit("no platform is called *%s*" % part)


def same(got, want):
    np.testing.assert_array_equal(got, want)


rng = np.random.default_rng(8)
few = "OCLGRIND_UNINITIALIZED" in os.environ  # which takes its time
