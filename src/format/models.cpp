#include "format/models.h"

#include <array>
#include <bit>
#include <cstdlib>

#include "format/bits.h"
#include "format/predictor.h"

namespace podaq::format {
namespace {

// `part` of `whole` in `steps` + 1 buckets; the middle one while nothing is known.
std::uint32_t bucket_of(std::uint32_t part, std::uint32_t whole, std::uint32_t steps) {
  return whole == 0 ? steps / 2 : part * steps / whole;
}

// ---- masks --------------------------------------------------------------------------------------------------------

template <typename Coder>
void code_mask(Coder& coder, Mixer<6>& mixer, Cells& row_cells, Cells& pair_cells, const StreamTensor& tensor,
               std::span<std::byte> bits, std::size_t bit_index) {
  const std::size_t columns = tensor.channels * tensor.taps;
  constexpr std::uint32_t density_steps = 15;
  constexpr std::size_t kernel_history = 8;
  Cells tap_cells(tensor.taps);
  Cells column_cells(columns);
  Cells channel_cells(tensor.channels);
  Cells kernel_cells(std::size_t{1} << (kernel_history + 1));
  std::vector<std::uint16_t> column_ones(columns);
  static_assert(2 * sizeof(ContextCell) + sizeof(std::uint16_t) == most_mask_model_bytes);
  std::size_t ones_before = 0;
  for (std::size_t row = 0; row < tensor.rows; ++row) {
    std::uint32_t row_ones = 0;
    unsigned history = 1;
    // Densities relative to what the tensor has shown so far: half is "as dense as the rest". A row's expectation,
    // ones_before * column / (row * columns), grows from column to column.
    const auto column_expected = static_cast<std::uint32_t>(row == 0 ? 0 : ones_before / columns);
    std::uint32_t expected = 0;
    std::size_t remainder = 0;
    std::size_t tap = 0;
    std::size_t channel = 0;
    for (std::size_t column = 0; column < columns; ++column) {
      if (row == 0) expected = static_cast<std::uint32_t>(column / 4);
      const std::uint32_t row_bucket = bucket_of(row_ones, row_ones + expected, density_steps);
      const std::size_t row_age = std::bit_width(column / 8 + 1) - 1U;
      const std::uint32_t column_bucket =
          bucket_of(column_ones[column], column_ones[column] + column_expected, density_steps);
      const std::array<ContextCell*, 6> cells = {
          &tap_cells[tap],         &column_cells[column],
          &channel_cells[channel], &row_cells[std::min<std::size_t>(row_age, 7) * (density_steps + 1) + row_bucket],
          &kernel_cells[history],  &pair_cells[row_bucket * (density_steps + 1) + column_bucket]};
      const bool bit = mixer.code(coder, get_bit(bits, bit_index), cells, std::min<std::size_t>(row_age, 7));
      set_bit(bits, bit_index++, bit);
      if (bit) {
        ++row_ones;
        ++column_ones[column];
      }
      if (history < (1U << kernel_history)) history = (history << 1) | (bit ? 1U : 0U);
      if (++tap == tensor.taps) {
        tap = 0;
        ++channel;
        history = 1;
      }
      remainder += ones_before;
      if (row > 0 && remainder >= row * columns) {
        remainder -= row * columns;
        ++expected;
      }
    }
    ones_before += row_ones;
  }
}

template <typename Coder>
void code_masks(Coder& coder, std::span<std::byte> bits, const StreamShape& shape) {
  Mixer<6> mixer(8, 255);
  Cells row_cells(8 * 16);
  Cells pair_cells(16 * 16);
  for (const StreamTensor& tensor : shape.tensors)
    code_mask(coder, mixer, row_cells, pair_cells, tensor, bits, tensor.first_mask_bit);
}

// ---- codes --------------------------------------------------------------------------------------------------------

// The nearest codes already known: what lies one tap before, and in the row before at the same place; 0 where nothing.
struct Neighbours {
  int previous_tap = 0;
  int previous_row = 0;
};

std::size_t sign_of(int code) {
  return code == 0 ? 0 : code < 0 ? 1 : 2;
}

class CodeModel {
 public:
  void start_tensor() { tensor_cells_.forget(); }
  void start_row() {
    row_smallest_ = magnitudes - 1;
    row_sum_ = 0;
    row_count_ = 0;
  }

  template <typename Coder>
  int code(Coder& coder, int value, Neighbours neighbours) {
    const std::size_t row_mean = row_count_ == 0 ? 0 : 1 + row_sum_ / row_count_ / 8;
    const std::size_t row_bound = row_count_ == 0 ? 0 : 1 + row_smallest_ / 8;
    const auto tap = static_cast<std::size_t>(std::abs(neighbours.previous_tap)) / 16;
    const auto row = static_cast<std::size_t>(std::abs(neighbours.previous_row)) / 16;
    const auto target = static_cast<unsigned>(std::abs(value));
    unsigned node = 1;  // A leading one, then the magnitude's bits so far.
    for (int bit = 6; bit >= 0; --bit) {
      const std::array<ContextCell*, 5> cells = {
          &all_cells_[node], &tensor_cells_[node], &mean_cells_[row_mean * magnitudes + node],
          &bound_cells_[row_bound * magnitudes + node], &neighbour_cells_[(tap * 8 + row) * magnitudes + node]};
      node = (node << 1) | (magnitude_mixer_.code(coder, ((target >> bit) & 1) != 0, cells, 6U - bit) ? 1U : 0U);
    }
    const unsigned magnitude = node - magnitudes;
    row_smallest_ = std::min<std::size_t>(row_smallest_, magnitude);
    row_sum_ += magnitude;
    ++row_count_;
    if (magnitude == 0) return 0;
    const std::array<ContextCell*, 2> cells = {
        &sign_cells_[sign_of(neighbours.previous_tap) * 3 + sign_of(neighbours.previous_row)],
        &tap_sign_cells_[sign_of(neighbours.previous_tap) * 8 + tap]};
    const bool negative = sign_mixer_.code(coder, value < 0, cells, 0);
    return negative ? -static_cast<int>(magnitude) : static_cast<int>(magnitude);
  }

 private:
  static constexpr std::size_t magnitudes = 128;

  Mixer<5> magnitude_mixer_{7, 255};
  Mixer<2> sign_mixer_{1, 255};
  Cells all_cells_ = Cells(magnitudes);
  Cells tensor_cells_ = Cells(magnitudes);
  Cells mean_cells_ = Cells(17 * magnitudes);
  Cells bound_cells_ = Cells(17 * magnitudes);
  Cells neighbour_cells_ = Cells(64 * magnitudes);
  Cells sign_cells_ = Cells(9);
  Cells tap_sign_cells_ = Cells(24);
  std::size_t row_smallest_ = 0;
  std::size_t row_sum_ = 0;
  std::size_t row_count_ = 0;
};

template <typename Coder>
void code_codes(Coder& coder, std::span<std::byte> codes, const StreamShape& shape) {
  CodeModel model;
  std::size_t next = 0;
  for (const StreamTensor& tensor : shape.tensors) {
    std::size_t mask_bit = tensor.first_mask_bit;
    const std::size_t columns = tensor.channels * tensor.taps;
    std::vector<std::int8_t> previous_row(columns);
    model.start_tensor();
    for (std::size_t row = 0; row < tensor.rows; ++row) {
      model.start_row();
      int before = 0;
      for (std::size_t column = 0; column < columns; ++column) {
        if (column % tensor.taps == 0) before = 0;
        int value = 0;
        if (!tensor.masked || get_bit(shape.masks, mask_bit++)) {
          value = model.code(coder, static_cast<std::int8_t>(codes[next]),
                             {.previous_tap = before, .previous_row = previous_row[column]});
          codes[next++] = static_cast<std::byte>(static_cast<std::int8_t>(value));
        }
        before = value;
        previous_row[column] = static_cast<std::int8_t>(value);
      }
    }
  }
}

// ---- bytes --------------------------------------------------------------------------------------------------------

// Codes a byte bit by bit from the top. `cell_of(context, node)` is the cell of a context for the bits so far, which
// are `node` with a leading one.
template <std::size_t contexts, typename Coder, typename ContextMixer, typename CellOf>
std::byte code_byte(Coder& coder, ContextMixer& mixer, std::byte value, std::size_t set, CellOf cell_of) {
  const auto target = std::to_integer<unsigned>(value);
  unsigned node = 1;
  for (int bit = 7; bit >= 0; --bit) {
    std::array<ContextCell*, contexts> cells{};
    for (std::size_t context = 0; context < contexts; ++context) cells[context] = &cell_of(context, node);
    node = (node << 1) | (mixer.code(coder, ((target >> bit) & 1) != 0, cells, set) ? 1U : 0U);
  }
  return static_cast<std::byte>(node & 0xFF);
}

// Numbers of 4 bytes: from the most significant byte down, each seen with the one above it and with the number before.
template <typename Coder>
void code_words(Coder& coder, std::span<std::byte> words, const StreamShape& /*shape*/) {
  constexpr std::size_t tree = 256;
  Mixer<3> mixer(4, 255);
  Cells place_cells(4 * tree);
  Cells above_cells(4 * tree * tree);
  Cells before_cells(4 * tree * tree);
  for (std::size_t word = 0; word + 4 <= words.size(); word += 4) {
    std::size_t above = 0;
    for (std::size_t place = 4; place-- > 0;) {
      const auto before = word == 0 ? 0 : std::to_integer<std::size_t>(words[word - 4 + place]);
      const std::array<ContextCell*, 3> trees = {&place_cells[place * tree],
                                                 &above_cells[(place * tree + above) * tree],
                                                 &before_cells[(place * tree + before) * tree]};
      const auto cell_of = [&](std::size_t context, unsigned node) -> ContextCell& { return trees[context][node]; };
      std::byte& byte = words[word + place];
      byte = code_byte<3>(coder, mixer, byte, place, cell_of);
      above = std::to_integer<std::size_t>(byte);
    }
  }
}

// Where the last bytes stood before, and so which byte followed them then.
class MatchFinder {
 public:
  explicit MatchFinder(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // Call once the byte before `position` is known.
  void move_to(std::size_t position) {
    if (length_ > 0 && bytes_[match_] == bytes_[position - 1]) {
      ++length_;
      ++match_;
    } else {
      length_ = 0;
    }
    if (position < shortest) return;
    std::uint32_t hash = 0;
    for (std::size_t i = position - shortest; i < position; ++i)
      hash = (hash + std::to_integer<std::uint32_t>(bytes_[i]) + 1) * 0x2F0B4C47U;
    std::size_t& last = last_seen_[hash >> 22];
    if (length_ == 0 && last > 0) {
      match_ = last;
      while (length_ < 32 && length_ < match_ && bytes_[match_ - 1 - length_] == bytes_[position - 1 - length_])
        ++length_;
    }
    last = position;
  }

  // How many bytes before agree, in 8 steps; 0: nothing is expected.
  [[nodiscard]] std::size_t confidence() const {
    return length_ < 16 ? (length_ + 3) / 4 : length_ < 32 ? 5 : length_ < 64 ? 6 : 7;
  }
  [[nodiscard]] unsigned expected() const { return length_ == 0 ? 0 : std::to_integer<unsigned>(bytes_[match_]); }

 private:
  static constexpr std::size_t shortest = 4;

  std::span<const std::byte> bytes_;
  std::size_t match_ = 0;
  std::size_t length_ = 0;
  std::array<std::size_t, 1024> last_seen_{};
};

// Bytes of tables: contexts are what came before, near and one or two words back, and what followed the last time.
template <typename Coder>
void code_bytes(Coder& coder, std::span<std::byte> bytes, const StreamShape& /*shape*/) {
  constexpr std::size_t contexts = 7;
  constexpr int cell_bits = 16;
  Mixer<contexts, 1 << 13> mixer(8, 60);
  Cells cells(contexts << cell_bits);
  MatchFinder matches(bytes);
  const auto back = [&](std::size_t position, std::size_t distance) {
    return position < distance ? 0U : std::to_integer<std::uint32_t>(bytes[position - distance]);
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) matches.move_to(i);
    const auto place = static_cast<std::uint32_t>(i % 4);
    const auto confidence = static_cast<std::uint32_t>(matches.confidence());
    const std::uint32_t last1 = back(i, 1);
    const std::uint32_t last2 = last1 | back(i, 2) << 8;
    const std::uint32_t last3 = last2 | back(i, 3) << 16;
    const std::uint32_t last5 = (last3 | back(i, 4) << 24) * 0x2545F491U + back(i, 5);
    const std::array<std::uint32_t, contexts> keys = {place,
                                                      last1,
                                                      last2,
                                                      last3 | place << 24,
                                                      last5,
                                                      matches.expected() << 4 | confidence,
                                                      place | back(i, 4) << 2 | back(i, 8) << 10};
    const auto cell_of = [&](std::size_t context, unsigned node) -> ContextCell& {
      const std::uint32_t hash = (keys[context] * 0x9E3779B1U ^ node) * 0x85EBCA6BU;
      return cells[(context << cell_bits) + (hash >> (32 - cell_bits))];
    };
    bytes[i] = code_byte<contexts>(coder, mixer, bytes[i], confidence, cell_of);
  }
}

// ---------------------------------------------------------------------------------------------------------------------

template <typename Coder>
void code_stream(Coder& coder, SectionKind kind, std::span<std::byte> bytes, const StreamShape& shape) {
  switch (kind) {
    case SectionKind::masks:
      return code_masks(coder, bytes, shape);
    case SectionKind::codes:
      return code_codes(coder, bytes, shape);
    case SectionKind::integers:
    case SectionKind::floats:
    case SectionKind::scales:
      return code_words(coder, bytes, shape);
    case SectionKind::graph:
    case SectionKind::packed_codes:
      return code_bytes(coder, bytes, shape);
  }
}

}  // namespace

Bytes encode_adaptive(SectionKind kind, std::span<const std::byte> bytes, const StreamShape& shape) {
  BinaryEncoder encoder;
  Bytes copy(bytes.begin(), bytes.end());
  code_stream(encoder, kind, copy, shape);
  return encoder.finish();
}

bool decode_adaptive(SectionKind kind, std::span<const std::byte> stored, const StreamShape& shape,
                     std::span<std::byte> bytes) {
  BinaryDecoder decoder(stored);
  code_stream(decoder, kind, bytes, shape);
  return decoder.has_read_everything();
}

}  // namespace podaq::format
