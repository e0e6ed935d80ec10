// Boost.Compute: sort, prefix sum and reduction of 65536 numbers. Prints OK and the seconds of one round.
#define CL_TARGET_OPENCL_VERSION 120
#include <boost/compute/core.hpp>
#include <boost/compute/algorithm.hpp>
#include <boost/compute/container/vector.hpp>
#include <chrono>
#include <cstdio>
#include <vector>
#include <algorithm>
#include <numeric>
namespace compute = boost::compute;
int main()
{
	auto devices = compute::system::devices();
	compute::device d = devices.back();
	compute::context ctx(d);
	compute::command_queue q(ctx, d);
	const size_t n = 1 << 16;
	std::vector<int> host(n), got(n);
	for (size_t i = 0; i < n; i++)
		host[i] = int(i * 7919 % n) - 1000;
	compute::vector<int> v(n, ctx), w(n, ctx);
	double best = 1e9;
	long sum = 0;
	for (int r = 0; r < 5; r++) {
		auto s = std::chrono::steady_clock::now();
		compute::copy(host.begin(), host.end(), v.begin(), q);
		compute::sort(v.begin(), v.end(), q);
		compute::inclusive_scan(v.begin(), v.end(), w.begin(), q);
		int total = 0;
		compute::reduce(v.begin(), v.end(), &total, compute::plus<int>(), q);
		compute::copy(v.begin(), v.end(), got.begin(), q);
		sum = total;
		best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - s).count());
	}
	std::sort(host.begin(), host.end());
	if (host != got || int(sum) != std::accumulate(host.begin(), host.end(), 0)) { puts("WRONG"); return 1; }
	printf("OK %.5f\n", best);
}
