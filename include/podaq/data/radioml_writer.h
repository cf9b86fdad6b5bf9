#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace podaq {

/// What a file of the RadioML layout holds.
struct RadioMlLayout {
  std::int64_t size = 0;                      ///< N, at least 1.
  std::int64_t frame_length = 0;              ///< L, 1 to 2^20.
  std::vector<std::string> class_names = {};  ///< At least 1, at most 1024; none empty or longer than 64 bytes, nor
                                              ///< with a comma or a control character.
  std::vector<std::int32_t> snr_grid = {};    ///< In dB; each in [−200, 200], ascending.
};

/// Writes a file that `RadioMlReader` reads, front to back, so that it never is in memory. The file appears whole or
/// not at all (`AtomicFile`), and its bytes depend on its content alone.
class RadioMlWriter {
 public:
  /// Throws `Error`: invalid_argument, naming the field, if the layout is outside its ranges; io if no file can be
  /// made.
  RadioMlWriter(const std::filesystem::path& path, const RadioMlLayout& layout);
  ~RadioMlWriter();
  RadioMlWriter(RadioMlWriter&&) noexcept;
  RadioMlWriter& operator=(RadioMlWriter&&) noexcept;

  /// Adds labels.size() frames, each of 2 × L floats as `RadioMlReader::read` gives them. Throws `Error`:
  /// invalid_argument if the spans' sizes do not fit each other or exceed the layout's size, a value is not finite, a
  /// label no class, or an SNR not in the grid; io if writing fails.
  void append(std::span<const float> frames, std::span<const std::int32_t> labels,
              std::span<const std::int32_t> snrs_db);

  /// Makes the file appear. Throws `Error`: invalid_argument unless all frames were added; io if writing fails. Without
  /// it nothing appears.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace podaq
