#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "podaq/data/iq_format.h"

namespace podaq {

/// A stretch of samples that belong together, and the bytes before it that are none.
struct IqSegment {
  std::uint64_t header_bytes = 0;             ///< To skip.
  std::optional<std::uint64_t> samples = {};  ///< Per channel; none: to the end of the input (the last segment only).
};

/// What the bytes of a recording mean.
struct IqLayout {
  IqFormat format = {};
  int channels = 1;                        ///< Interleaved sample by sample, 1 to 1024.
  int channel = 0;                         ///< Which of them is read, in [0, channels).
  std::vector<IqSegment> segments = {{}};  ///< At least one, in the order of the input.
};

/// Reads complex samples of one channel front to back, from a file, a pipe or a terminal, in memory that does not
/// depend on the input's length. Samples are there as soon as their bytes are; waiting ends when the user asks to stop.
class IqStream {
 public:
  /// Opens a file. Throws `Error`: io if it cannot be opened; invalid_argument, naming the field, if the layout is
  /// outside its ranges.
  IqStream(const std::filesystem::path& path, const IqLayout& layout);
  /// Reads what comes from an open descriptor, which stays open; `name` stands for it in error texts. Throws as above.
  IqStream(int descriptor, std::string name, const IqLayout& layout);
  ~IqStream();
  IqStream(IqStream&&) noexcept;
  IqStream& operator=(IqStream&&) noexcept;

  /// Fills `out` and says how many samples came: fewer only where the segment ends. Throws `Error`: format, naming the
  /// byte, where the input ends within a sample, a segment or a header; io if reading fails; cancelled if the user asks
  /// to stop (`CancellationScope`).
  std::size_t read(std::span<std::complex<float>> out);

  /// Goes on to the next segment; the current one must have been read to its end. False if there is none.
  [[nodiscard]] bool next_segment();

  /// How many samples of the channel were read so far, over all segments.
  [[nodiscard]] std::uint64_t position() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace podaq
