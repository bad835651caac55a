// Sampling of images on GPUs, through kernels/grid_sample.cu.
#include "cuda/kernels/grid_sample_args.h"
#include "cuda/nn/sums.h"
#include "device/nn/image.h"

namespace rush::cuda {
namespace {

enum Kernel : uint64_t { kSample, kBackward, kPlaces, kNeighbours };

// Key: kernel, dims, type.
std::string spell(uint64_t key) {
  constexpr const char* names[] = {"grid_sample<", "grid_sample_backward<", "grid_places<",
                                   "grid_neighbours<"};
  const uint64_t kernel = key >> 6;
  return concat("rush::", names[kernel], type_pair(DType(key & 15)),
                kernel > kBackward ? ">"
                : key >> 4 & 3     ? ", 3>"
                                   : ", 2>");
}
const KernelFamily kFamily{"grid_sample.cu", spell};

GridArgs args_for(const Tensor& x, const Tensor& grid, const Sampling& how) {
  GridArgs args{};
  const size_t dims = size_t(x.dim() - 2);
  args.x = x.data();
  args.grid = grid.data();
  args.batch = x.sizes()[0];
  args.channels = x.sizes()[1];
  args.points = grid.numel() / std::max<int64_t>(1, args.batch * int64_t(dims));
  args.size[0] = 1;
  for (size_t d = 0; d < dims; ++d) args.size[3 - dims + d] = x.sizes()[2 + d];
  args.how = how;
  return args;
}
void run(Kernel kernel, const GridArgs& args, const Tensor& x) {
  const int device = x.device().index;
  launch_each(kFamily, kernel << 6 | uint64_t(x.dim() == 5) << 4 | uint64_t(x.dtype()), device,
              args.batch * args.points, args);
}

void grid_sample(const Tensor& x, const Tensor& grid, const Sampling& how, const Tensor& y) {
  GridArgs args = args_for(x, grid, how);
  args.y = y.data();
  run(kSample, args, x);
}

void grid_sample_backward(const Tensor& g, const Tensor& x, const Tensor& grid, const Sampling& how,
                          const Tensor& gx, const Tensor& ggrid) {
  GridArgs args = args_for(x, grid, how);
  args.g = g.data();
  const AtomicSums sums(gx);
  args.gx = sums.data();
  args.ggrid = const_cast<void*>(data_or_null(ggrid));
  run(kBackward, args, x);
  sums.finish();
}

void grid_places(const Tensor& grid, IntList sizes, const Sampling& how, const Tensor& places,
                 const Tensor& slopes) {
  GridPlaceArgs args{};
  args.n = grid.numel();
  args.dims = int64_t(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) args.size[d] = sizes[sizes.size() - 1 - d];
  args.in = grid.data();
  args.places = places.data();
  args.slopes = slopes.data();
  args.how = how;
  const int device = grid.device().index;
  launch_each(kFamily, kPlaces << 6 | uint64_t(grid.dtype()), device, args.n, args);
}

void grid_neighbours(const Tensor& places, int64_t size, int64_t offset, const Sampling& how,
                     const Tensor& out) {
  GridPlaceArgs args{};
  args.n = places.numel();
  args.size[0] = size;
  args.in = places.data();
  args.neighbours = out.data<i64>();
  args.offset = offset;
  args.how = how;
  const int device = places.device().index;
  launch_each(kFamily, kNeighbours << 6 | uint64_t(places.dtype()), device, args.n, args);
}

const bool registered = [] {
  ImageLoops& loops = image_loops(DeviceType::CUDA);
  loops.grid_sample = grid_sample;
  loops.grid_sample_backward = grid_sample_backward;
  loops.grid_places = grid_places;
  loops.grid_neighbours = grid_neighbours;
  return true;
}();

}  // namespace
}  // namespace rush::cuda
