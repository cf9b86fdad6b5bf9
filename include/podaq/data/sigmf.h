#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "podaq/data/iq_format.h"
#include "podaq/data/iq_stream.h"

namespace podaq {

/// Samples of one SigMF recording that were taken in one go.
struct SigMfCapture {
  std::uint64_t first_sample = 0;                  ///< In the data; `core:offset` is taken off.
  std::uint64_t sample_count = 0;                  ///< Up to the next capture or the end of the data.
  std::uint64_t header_bytes = 0;                  ///< Bytes of the data before it that are no samples.
  std::optional<std::uint64_t> global_index = {};  ///< Where its first sample stands in the whole stream.
  std::optional<double> frequency_hz = {};         ///< The centre of the band.
};

/// What someone said about some samples.
struct SigMfAnnotation {
  std::uint64_t first_sample = 0;  ///< In the data; `core:offset` is taken off.
  std::uint64_t sample_count = 0;  ///< To the end of the data where the file gives no count.
  std::string label = {};          ///< Empty where there is none.
};

/// A SigMF recording (SigMF 1.x) as plain data. Indices count the samples of one channel.
struct SigMfRecording {
  IqFormat format = {};
  int channels = 1;                           ///< Interleaved in the data.
  std::optional<double> sample_rate_hz = {};  ///< Positive.
  std::uint64_t offset = 0;                   ///< Index of the data's first sample in the stream that it was cut from.
  std::uint64_t sample_count = 0;             ///< Samples of each channel in the data.
  std::vector<SigMfCapture> captures = {};    ///< At least one; together they cover all samples.
  std::vector<SigMfAnnotation> annotations = {};
  std::string dataset = {};  ///< `core:dataset`, the name of a data file of another name; empty: there is none.
};

/// Understands the text of a .sigmf-meta file whose data have `data_bytes` bytes. `core:offset` is taken off all
/// indices. Throws `Error`, naming `name`, the field and, where it matters, the sample or byte: format for text that is
/// no JSON, fields that are missing or of another type, captures or annotations that are out of order or outside the
/// data, and data whose size is no multiple of a sample of every channel; unsupported for real samples and metadata
/// without data.
[[nodiscard]] SigMfRecording parse_sigmf(std::string_view text, const std::string& name, std::uint64_t data_bytes);

/// A recording and where its samples are.
struct SigMfFiles {
  SigMfRecording recording;
  std::filesystem::path data;
};

/// Reads the .sigmf-meta file and looks for its data: beside it, as .sigmf-data or under the name that `core:dataset`
/// gives. Throws `Error` as `parse_sigmf`, io for a file that is missing or, the metadata, larger than 256 MiB.
[[nodiscard]] SigMfFiles load_sigmf(const std::filesystem::path& metadata);

/// How an `IqStream` reads one channel of the recording, a segment for each capture. Throws `Error` (invalid_argument)
/// if there is no such channel.
[[nodiscard]] IqLayout layout_of(const SigMfRecording& recording, int channel = 0);

/// The labels of a recording's annotations, found by the samples that they cover in logarithmic time.
class SigMfLabels {
 public:
  explicit SigMfLabels(const SigMfRecording& recording);

  /// The label that covers all of samples [first, first + count): of several, one that reaches furthest; empty: none.
  [[nodiscard]] std::string_view covering(std::uint64_t first, std::uint64_t count) const;

 private:
  /// Of all labels that begin at `begin` or before, the one that reaches furthest.
  struct Reach {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::string label = {};
  };
  std::vector<Reach> reaches_;  ///< By `begin`, ascending.
};

}  // namespace podaq
