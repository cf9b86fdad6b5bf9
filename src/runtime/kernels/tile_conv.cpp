#include "runtime/kernels/tile_conv.h"

#include <algorithm>
#include <cstring>

#include "runtime/kernels/absorption.h"
#include "runtime/kernels/avx512/tasks.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/quad_conv.h"
#include "runtime/kernels/quad_packing.h"
#include "runtime/kernels/registry.h"
#include "runtime/kernels/weights.h"

namespace podaq::runtime_detail::amx {

namespace {

constexpr std::size_t vector_outputs = 16;
constexpr std::size_t quads_per_chunk = tile_bytes / quad;
constexpr std::size_t most_gathered_positions = 128;
constexpr std::size_t most_pooled_row = 16;
constexpr std::size_t most_band_positions = 512;

std::size_t chunks_of(std::size_t bytes) {
  return (bytes + tile_bytes - 1) / tile_bytes;
}

bool accepts_conv(const NodeView& view) {
  if (!view.has_codes()) return false;
  if (view.gives_codes() && is_planar(view.output(), view.output_layout())) return false;
  const auto& conv = std::get<Conv>(view.node.op);
  if (conv.adds_input && is_planar(view.input(1), view.input_layout(1))) return false;
  const std::size_t merged = groups_to_merge(geometry_of(view.graph, view.node), vector_outputs);
  return merged != 0 && (!view.gives_codes() || integer_epilogue(view, conv.adds_input, conv.clamp).sums_fit);
}

bool needs_plane(const ConvGeometry& g) {
  return !windows_lie_inside(g) || g.input_width % g.stride_width != 0;
}

std::size_t plane_width(const ConvGeometry& g) {
  return needs_plane(g) ? round_up(reached_plane(g).width, g.stride_width) : g.input_width;
}

std::size_t run_count(const ConvGeometry& g) {
  return g.taps() / run_taps(g);
}

std::size_t run_bytes(const ConvGeometry& g) {
  return run_taps(g) * g.channels_per_group();
}

// Positions between the starts of two rows that are read in place.
std::size_t pitch_of(const ConvGeometry& g) {
  return g.stride_height * plane_width(g) / g.stride_width;
}

// Strips of positions that are computed one after another.
struct Strips {
  std::size_t count = 1, positions = 1;  ///< Positions of each.
};

TileConvWork tile_work(const ConvGeometry& g, const Strips& strips, std::size_t chunks) {
  const std::size_t tiles = round_up(strips.positions, tile_positions) / tile_positions;
  const std::size_t outputs = g.outputs_per_group();
  const std::size_t output_tiles = round_up(outputs, tile_outputs) / tile_outputs;
  const std::size_t blocks = round_up(outputs, block_outputs) / block_outputs;
  const std::size_t block_tiles = std::min(output_tiles, block_outputs / tile_outputs);
  const bool are_near = chunks * block_tiles * tile_bytes * tile_outputs <= cached_weight_bytes;
  const std::size_t passes = are_near ? 1 : strips.count * ((tiles + 1) / 2);
  const std::size_t all_tiles = g.groups * strips.count * tiles;
  return {.products = all_tiles * chunks * output_tiles,
          .steps = all_tiles * chunks * blocks,
          .far_weights = g.groups * passes * chunks * output_tiles,
          .sums = all_tiles * tile_positions * output_tiles};
}

// Reading windows in place: a plane's borders are positions too, and each run of a window takes whole chunks.
TileConvWork work_in_place(const ConvGeometry& g, const PoolWindow& pool, std::size_t batch) {
  const std::size_t chunks = run_count(g) * chunks_of(run_bytes(g));
  const bool strips_are_bands = g.output_height > 1 && pool.height * pool.width > 1;
  if (strips_are_bands)
    return tile_work(g,
                     {.count = batch * (g.output_height / pool.height),
                      .positions = (pool.height - 1) * pitch_of(g) + g.output_width},
                     chunks);
  return tile_work(g, {.count = batch, .positions = (g.output_height - 1) * pitch_of(g) + g.output_width}, chunks);
}

// Copying each window to its own bytes first.
TileConvWork work_gathered(const ConvGeometry& g, const PoolWindow& pool, std::size_t batch) {
  const std::size_t window_bytes = run_count(g) * run_bytes(g);
  const std::size_t positions =
      batch * (g.output_height / pool.height * pool.height) * (g.output_width / pool.width * pool.width);
  const std::size_t strips = round_up(positions, most_gathered_positions) / most_gathered_positions;
  TileConvWork work = tile_work(g, {.count = strips, .positions = std::min(positions, most_gathered_positions)},
                                chunks_of(window_bytes));
  work.set_ups = strips;
  work.gathered_bytes = positions * window_bytes;
  work.gathered_runs = positions * run_count(g);
  return work;
}

bool gathering_pays(const ConvGeometry& g) {
  constexpr std::size_t cycles_per_product = 16;
  constexpr std::size_t bytes_per_cycle = 32;
  constexpr std::size_t cycles_per_run = 6;
  if (g.groups != 1) return false;
  const std::size_t in_place = cycles_per_product * work_in_place(g, {}, 1).products;
  const std::size_t window_bytes = run_count(g) * run_bytes(g);
  const TileConvWork gathered = tile_work(g, {.count = 1, .positions = g.output_positions()}, chunks_of(window_bytes));
  const std::size_t copies = g.output_positions() * (window_bytes / bytes_per_cycle + cycles_per_run * run_count(g));
  return cycles_per_product * gathered.products + copies < in_place + in_place / 8;
}

// Sets how the windows are read, from the plane with borders or, where it has none, from the input itself.
void set_windows(TileConv& tiles) {
  QuadConv& conv = tiles.conv;
  const ConvGeometry& g = conv.geometry;
  const WindowRuns runs = find_runs(g);
  if (needs_plane(g)) conv.plane = {.height = reached_plane(g).height, .width = plane_width(g)};
  const std::size_t row_width = plane_width(g);
  tiles.pitch = pitch_of(g);
  tiles.position_bytes = g.stride_width * g.input_channels;
  conv.run_offsets = run_offsets(g, runs, row_width);
  tiles.gathers = gathering_pays(g);
  if (tiles.gathers) {
    const std::size_t window_bytes = round_up(runs.count * runs.bytes, tile_bytes);
    // Rows at multiples of 512 bytes would share few sets of the cache.
    tiles.position_bytes = window_bytes % 512 == 0 ? window_bytes + tile_bytes : window_bytes;
    for (std::size_t chunk = 0; chunk < window_bytes; chunk += tile_bytes)
      tiles.chunk_offsets.push_back(static_cast<std::uint32_t>(chunk));
  } else {
    for (const std::uint32_t run : conv.run_offsets)
      for (std::size_t chunk = 0; chunk < runs.bytes; chunk += tile_bytes)
        tiles.chunk_offsets.push_back(run + static_cast<std::uint32_t>(chunk));
  }
}

// Packs the weights in the order in which the chunks are read.
void pack(TileConv& tiles, const GroupedWeights& weights, std::span<const std::int32_t> bias) {
  WindowRuns runs = find_runs(tiles.conv.geometry);
  if (tiles.gathers) runs = {.count = 1, .bytes = runs.count * runs.bytes, .window = std::move(runs.window)};
  tiles.conv.quads_per_run = chunks_of(runs.bytes) * quads_per_chunk;
  pack_quads(tiles.conv, runs, weights, bias, vector_outputs);
}

Packed prepare_conv(const NodeView& view) {
  ConvGeometry g = geometry_of(view.graph, view.node);
  const GroupedWeights weights = grouped_weights(view, g);
  g.groups /= groups_to_merge(g, vector_outputs);
  TileConv tiles{.conv = unpacked_conv(view, g), .chunk_offsets = {}};
  if (g.output_positions() == 1) tiles.conv.output = {.channel = 1, .position = g.output_channels};
  set_windows(tiles);
  pack(tiles, weights, folded_bias(view, weights.codes, g.output_channels));
  return tiles;
}

// Gathered windows lie one after another, those of a pooling window too.
TileTask gathered_task(const TileConv& tiles) {
  TileTask task = tile_task(tiles);
  task.pool_columns = tiles.conv.pool_height * tiles.conv.pool_width;
  task.pool_rows = 1;
  task.rows = 1;
  task.columns = most_gathered_positions / task.pool_columns * task.pool_columns;
  task.pitch = task.columns;
  return task;
}

std::size_t results_per_sample(const TileConv& tiles) {
  const ConvGeometry& g = tiles.conv.geometry;
  return g.output_height / tiles.conv.pool_height * (g.output_width / tiles.conv.pool_width);
}

// The scratch memory of a node, part by part.
struct Scratch {
  std::size_t accumulators = 0, plane = 0, transposed = 0, gathered = 0, bytes = 0;
};

Scratch scratch_of(const TileConv& tiles) {
  const TileTask task = tiles.gathers ? gathered_task(tiles) : tile_task(tiles);
  Scratch scratch;
  scratch.plane = 2 * accumulator_rows(task) * block_outputs * sizeof(std::int32_t);
  const ConvGeometry& g = tiles.conv.geometry;
  const std::size_t input_bytes = tiles.conv.input_is_planar ? g.input_channels * g.input_positions() : 0;
  scratch.transposed = round_up(scratch.plane + tiles.conv.plane.bytes(g) + over_read_bytes, 64);
  scratch.gathered = round_up(scratch.transposed + input_bytes + over_read_bytes, 64);
  scratch.bytes = scratch.gathered + (tiles.gathers ? task.columns * tiles.position_bytes : 0);
  return scratch;
}

std::size_t scratch_bytes(const Packed& packed) {
  return scratch_of(std::get<TileConv>(packed)).bytes;
}

// Computes all groups of one plane. `task` has the plane's input, output and residual.
void run_groups(const QuadConv& conv, TileTask task) {
  const ConvGeometry& g = conv.geometry;
  const std::size_t output_bytes = conv.epilogue.gives_codes ? sizeof(std::uint8_t) : sizeof(float);
  const std::size_t weight_bytes = conv.weights.size() / g.groups;
  for (std::size_t group = 0; group < g.groups; ++group) {
    convolve_tiles(task);
    task.input += g.channels_per_group();
    task.weights += weight_bytes;
    task.bias += conv.padded_outputs;
    task.multipliers += conv.padded_outputs;
    task.output =
        static_cast<std::byte*>(task.output) + g.outputs_per_group() * task.output_channel_stride * output_bytes;
    if (task.residual != nullptr) task.residual += g.outputs_per_group();
  }
}

// Where the results from `first` on, counted over the batch, go, and what is added to them.
void place_results(TileTask& task, const TileConv& tiles, const Operands& operands, std::size_t first) {
  const QuadConv& conv = tiles.conv;
  const std::size_t results = results_per_sample(tiles);
  const std::size_t bytes = conv.epilogue.gives_codes ? sizeof(std::uint8_t) : sizeof(float);
  const std::size_t offset =
      first / results * results * conv.geometry.output_channels + first % results * conv.output.position;
  task.output = operands.output + offset * bytes;
  if (conv.epilogue.adds_codes)
    task.residual = as<std::uint8_t>(operands.inputs[1]) + first * conv.geometry.output_channels;
}

// Where the copies of a node's input go.
struct Rooms {
  std::uint8_t* plane = nullptr;
  std::uint8_t* transposed = nullptr;
  std::uint8_t* gathered = nullptr;
};

void run_in_place(const TileConv& tiles, const Operands& operands, const Rooms& rooms, TileTask task) {
  configure_tiles(task);
  for (std::size_t sample = 0; sample < operands.batch; ++sample) {
    task.input = readable_input(tiles.conv, operands.inputs[0], sample, rooms.plane, rooms.transposed);
    place_results(task, tiles, operands, sample * results_per_sample(tiles));
    run_groups(tiles.conv, task);
  }
}

// Copies the window of one position, run after run.
void gather_window(const TileConv& tiles, const std::uint8_t* input, std::size_t row, std::size_t column,
                   std::uint8_t* window) {
  const QuadConv& conv = tiles.conv;
  const ConvGeometry& g = conv.geometry;
  const std::size_t row_width = conv.plane.is_needed() ? conv.plane.width : g.input_width;
  const std::uint8_t* first = input + (row * g.stride_height * row_width + column * g.stride_width) * g.input_channels;
  const std::size_t run_bytes = g.taps() / conv.run_offsets.size() * g.input_channels;
  for (const std::uint32_t offset : conv.run_offsets) {
    std::memcpy(window, first + offset, run_bytes);
    window += run_bytes;
  }
}

// Copies the windows that one result needs.
void gather_result(const TileConv& tiles, const std::uint8_t* input, std::size_t result, std::uint8_t* windows) {
  const std::size_t results_per_row = tiles.conv.geometry.output_width / tiles.conv.pool_width;
  const std::size_t first_row = result / results_per_row * tiles.conv.pool_height;
  const std::size_t first_column = result % results_per_row * tiles.conv.pool_width;
  for (std::size_t row = 0; row < tiles.conv.pool_height; ++row)
    for (std::size_t column = 0; column < tiles.conv.pool_width; ++column, windows += tiles.position_bytes)
      gather_window(tiles, input, first_row + row, first_column + column, windows);
}

// Planes of few positions share tiles with those of the next samples.
void run_gathered(const TileConv& tiles, const Operands& operands, const Rooms& rooms, TileTask task) {
  const std::size_t results_at_once = task.columns / task.pool_columns;
  const std::size_t results = results_per_sample(tiles);
  const std::size_t all = results * operands.batch;
  const std::size_t result_bytes = task.pool_columns * tiles.position_bytes;
  task.input = rooms.gathered;
  std::size_t sample_read = operands.batch;
  const std::uint8_t* input = nullptr;
  std::size_t count = 0;
  for (std::size_t first = 0; first < all; first += count) {
    // Floats may be stored by channel, so that results of two samples do not lie side by side.
    const std::size_t left_of_sample = results - first % results;
    const std::size_t most = tiles.conv.output.channel == 1 ? all - first : left_of_sample;
    count = std::min(results_at_once, most);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t sample = (first + i) / results;
      if (sample != sample_read)
        input = readable_input(tiles.conv, operands.inputs[0], sample, rooms.plane, rooms.transposed);
      sample_read = sample;
      gather_result(tiles, input, (first + i) % results, rooms.gathered + i * result_bytes);
    }
    task.columns = count * task.pool_columns;
    task.pitch = task.columns;
    configure_tiles(task);
    place_results(task, tiles, operands, first);
    run_groups(tiles.conv, task);
  }
}

void run_conv(const Packed& packed, const Operands& operands) {
  const auto& tiles = std::get<TileConv>(packed);
  const Scratch scratch = scratch_of(tiles);
  const Rooms rooms{.plane = as<std::uint8_t>(operands.scratch + scratch.plane),
                    .transposed = as<std::uint8_t>(operands.scratch + scratch.transposed),
                    .gathered = as<std::uint8_t>(operands.scratch + scratch.gathered)};
  TileTask task = tiles.gathers ? gathered_task(tiles) : tile_task(tiles);
  task.accumulators = as<std::int32_t>(operands.scratch);
  task.accumulator_rows = accumulator_rows(task);
  if (results_per_sample(tiles) == 0) return;
  if (tiles.gathers)
    run_gathered(tiles, operands, rooms, task);
  else
    run_in_place(tiles, operands, rooms, task);
  release_tiles();
}

bool absorb_reader(Packed& packed, const NodeView& reader) {
  auto& tiles = std::get<TileConv>(packed);
  const auto window = pool_to_absorb(tiles.conv.geometry, tiles.conv.epilogue, reader);
  if (!window || !can_pool(tiles.conv.geometry, *window)) return false;
  tiles.conv.pool_height = window->height;
  tiles.conv.pool_width = window->width;
  return true;
}

bool absorb_producer(Packed& packed, const NodeView& producer) {
  return absorb_quantize(std::get<TileConv>(packed).conv, producer, avx512::quantize_floats);
}

}  // namespace

bool can_pool(const ConvGeometry& g, const PoolWindow& window) {
  if (window.height * window.width > most_pooled_row) return false;
  const bool in_bands = g.output_height > 1 && !gathering_pays(g);
  return !in_bands || window.height * pitch_of(g) <= most_band_positions;
}

TileConvWork tile_conv_work(const ConvGeometry& g, const PoolWindow& pool, std::size_t batch) {
  return gathering_pays(g) ? work_gathered(g, pool, batch) : work_in_place(g, pool, batch);
}

TileTask tile_task(const TileConv& tiles) {
  const QuadConv& conv = tiles.conv;
  return {.position_stride = tiles.position_bytes,
          .chunk_offsets = tiles.chunk_offsets.data(),
          .chunks = tiles.chunk_offsets.size(),
          .weights = conv.weights.data(),
          .bias = conv.bias.data(),
          .multipliers = conv.multipliers.data(),
          .outputs = conv.geometry.outputs_per_group(),
          .rows = conv.geometry.output_height,
          .columns = conv.geometry.output_width,
          .pitch = tiles.pitch,
          .pool_rows = tiles.conv.pool_height,
          .pool_columns = tiles.conv.pool_width,
          .output_channel_stride = conv.output.channel,
          .output_position_stride = conv.output.position,
          .residual_position_stride = conv.geometry.output_channels,
          .epilogue = epilogue_task(conv.epilogue)};
}

const Kernel tile_conv = {.name = "amx_tile_conv",
                          .isa = Isa::amx,
                          .accepts = accepts_conv,
                          .prepare = prepare_conv,
                          .run = run_conv,
                          .scratch_bytes = scratch_bytes,
                          .absorb_reader = absorb_reader,
                          .absorb_producer = absorb_producer};

}  // namespace podaq::runtime_detail::amx
