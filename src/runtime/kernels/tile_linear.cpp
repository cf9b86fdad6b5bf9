#include "runtime/kernels/tile_linear.h"

#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/quad_conv.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/tile_conv.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail::amx {

namespace {

constexpr std::size_t quads_per_chunk = tile_bytes / quad;

// A tile takes as long for one sample as for sixteen; with fewer samples than this, dot products are faster.
constexpr std::size_t least_batch = 4;

bool accepts(const NodeView& view) {
  if (!view.has_codes() || view.input().shape.size() != 1) return false;
  const auto& linear = std::get<Linear>(view.node.op);
  return !view.gives_codes() || integer_epilogue(view, linear.adds_input, linear.clamp).sums_fit;
}

// The samples are the positions of one row.
TileTask task_of(const TileConv& tiles, std::size_t batch) {
  TileTask task = tile_task(tiles);
  task.columns = batch;
  task.pitch = batch;
  return task;
}

bool absorb_producer(Packed& packed, const NodeView& producer) {
  return absorb_flatten(std::get<TileConv>(packed).conv, producer);
}

}  // namespace

TileConv prepare_tile_linear(const NodeView& view) {
  TileConv tiles{.conv = prepare_quad_linear(view, quads_per_chunk), .chunk_offsets = {}};
  tiles.position_bytes = tiles.conv.geometry.input_channels;
  for (std::size_t chunk = 0; chunk < tiles.position_bytes; chunk += tile_bytes)
    tiles.chunk_offsets.push_back(static_cast<std::uint32_t>(chunk));
  return tiles;
}

std::size_t tile_linear_scratch_bytes(const TileConv& tiles) {
  return 2 * accumulator_rows(task_of(tiles, least_batch)) * block_outputs * sizeof(std::int32_t);
}

void run_tile_linear(const TileConv& tiles, const Operands& operands) {
  if (operands.batch < least_batch) {
    avx512::run_quad_linear(tiles.conv, operands);
    return;
  }
  TileTask task = task_of(tiles, operands.batch);
  task.input = as<std::uint8_t>(operands.inputs[0]);
  task.output = operands.output;
  if (tiles.conv.epilogue.adds_codes) task.residual = as<std::uint8_t>(operands.inputs[1]);
  task.accumulators = as<std::int32_t>(operands.scratch);
  task.accumulator_rows = accumulator_rows(task);
  configure_tiles(task);
  convolve_tiles(task);
  release_tiles();
}

const Kernel tile_linear = {
    .name = "amx_tile_linear",
    .isa = Isa::amx,
    .accepts = accepts,
    .prepare = [](const NodeView& view) -> Packed { return prepare_tile_linear(view); },
    .run = [](const Packed& packed,
              const Operands& operands) { run_tile_linear(std::get<TileConv>(packed), operands); },
    .scratch_bytes = [](const Packed& packed) { return tile_linear_scratch_bytes(std::get<TileConv>(packed)); },
    .absorb_producer = absorb_producer};

}  // namespace podaq::runtime_detail::amx
