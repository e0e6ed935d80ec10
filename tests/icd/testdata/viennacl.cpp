// ViennaCL's headers on all devices: vectors that are added, scaled and multiplied on each, in
// whole numbers that are compared.
//
//   viennacl [PLATFORM [DEVICES]]
#define CL_TARGET_OPENCL_VERSION 300
#define VIENNACL_WITH_OPENCL
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include <viennacl/vector.hpp>
#include <viennacl/linalg/inner_prod.hpp>
#include <viennacl/ocl/backend.hpp>

int main(int argc, char **argv)
{
	std::string name = argc > 1 ? argv[1] : "";
	auto platforms = viennacl::ocl::get_platforms();
	for (size_t at = 0; at < platforms.size(); at++) {
		auto &p = platforms[at];
		char called[256] = "";
		clGetPlatformInfo(p.id(), CL_PLATFORM_NAME, sizeof called, called, NULL);
		if (std::string(called).find(name) == std::string::npos)
			continue;
		auto devices = p.devices(CL_DEVICE_TYPE_ALL);
		size_t n = argc > 2 && atoi(argv[2]) ? atoi(argv[2]) : devices.size();
		if (devices.size() < n) {
			fprintf(stderr, "%zu devices, not %zu\n", devices.size(), n);
			return 2;
		}
		devices.resize(n);
		std::vector<cl_device_id> ids;
		for (auto const &d : devices)
			ids.push_back(d.id());
		viennacl::ocl::set_context_platform_index(0, at);
		viennacl::ocl::setup_context(0, ids);
		viennacl::ocl::switch_context(0);
		const size_t size = 1000;
		std::vector<float> x(size), y(size), got(size);
		for (size_t i = 0; i < size; i++)
			x[i] = float(i % 7), y[i] = float(i % 5);
		viennacl::vector<float> a(size), b(size);
		viennacl::copy(x, a);
		viennacl::copy(y, b);
		for (auto const &d : devices) {
			viennacl::ocl::current_context().switch_device(d);
			a = 2.0f * a + b;
			float dot = viennacl::linalg::inner_prod(a, b), want = 0;
			viennacl::backend::finish();
			for (size_t i = 0; i < size; i++)
				x[i] = 2 * x[i] + y[i], want += x[i] * y[i];
			if (dot != want) {
				fprintf(stderr, "inner product on %s: %g, not %g\n", d.name().c_str(), dot, want);
				return 1;
			}
		}
		viennacl::copy(a, got);
		for (size_t i = 0; i < size; i++)
			if (got[i] != x[i]) {
				fprintf(stderr, "element %zu is %g, not %g\n", i, got[i], x[i]);
				return 1;
			}
		puts("OK");
		return 0;
	}
	fprintf(stderr, "no platform is called *%s*\n", name.c_str());
	return 2;
}
