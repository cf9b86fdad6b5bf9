#include "podaq/data/iq_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 16;
constexpr int most_channels = 1024;

void validate(const IqLayout& layout) {
  const auto refuse = [](const std::string& fault) {
    throw Error(ErrorCode::invalid_argument, concat("IqLayout.", fault));
  };
  if (layout.channels < 1 || layout.channels > most_channels)
    refuse(concat("channels is ", layout.channels, "; it must be in [1, ", most_channels, "]"));
  if (layout.channel < 0 || layout.channel >= layout.channels)
    refuse(concat("channel is ", layout.channel, "; with ", layout.channels, " channels it must be in [0, ",
                  layout.channels - 1, "]"));
  if (layout.segments.empty()) refuse("segments is empty; one is needed at least");
  for (std::size_t i = 0; i + 1 < layout.segments.size(); ++i)
    if (!layout.segments[i].samples) refuse(concat("segments[", i, "].samples: only the last may go to the end"));
}

/// Waits for input. A read would begin anew after a signal, so it is not begun before there is something to read.
void wait_for_input(int descriptor) {
  constexpr int milliseconds = 100;
  pollfd waiting = {.fd = descriptor, .events = POLLIN, .revents = 0};
  do {
    throw_if_cancelled();
  } while (::poll(&waiting, 1, milliseconds) <= 0);
}

}  // namespace

struct IqStream::State {
  int descriptor = -1;
  bool owns_descriptor = false;
  std::string name;
  IqLayout layout;
  std::size_t stride = 0;  ///< Bytes from one sample of a channel to the next.

  std::vector<std::byte> buffer;
  std::size_t begin = 0;  ///< The buffer's bytes that were not used yet.
  std::size_t end = 0;
  std::uint64_t bytes_used = 0;
  bool input_ended = false;

  std::size_t segment = 0;
  std::uint64_t left_in_segment = 0;
  std::uint64_t samples_read = 0;

  ~State() {
    if (owns_descriptor) ::close(descriptor);
  }

  void start(const IqLayout& wanted) {
    layout = wanted;
    stride = sample_bytes(layout.format) * static_cast<std::size_t>(layout.channels);
    buffer.resize(std::max(block_bytes, 2 * stride));
  }

  void enter_segment() {
    const IqSegment& entered = layout.segments[segment];
    left_in_segment = entered.samples.value_or(std::numeric_limits<std::uint64_t>::max());
    skip(entered.header_bytes);
  }

  void skip(std::uint64_t bytes) {
    while (bytes > 0) {
      if (begin == end && !fill())
        refuse(
            concat("ends at byte ", bytes_used, ", within ", layout.segments[segment].header_bytes, " bytes to skip"));
      const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, end - begin));
      use(count);
      bytes -= count;
    }
  }

  void use(std::size_t bytes) {
    begin += bytes;
    bytes_used += bytes;
  }

  /// Adds to the buffered bytes whatever there is; false at the input's end.
  bool fill() {
    if (input_ended) return false;
    if (begin > 0) {
      std::memmove(buffer.data(), buffer.data() + begin, end - begin);
      end -= begin;
      begin = 0;
    }
    while (true) {
      wait_for_input(descriptor);
      const ssize_t count = ::read(descriptor, buffer.data() + end, buffer.size() - end);
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count < 0) throw Error(ErrorCode::io, concat("cannot read '", name, "': ", std::strerror(errno)));
      end += static_cast<std::size_t>(count);
      input_ended = count == 0;
      return count > 0;
    }
  }

  /// The input has ended with less than a sample of each channel in the buffer.
  void check_end() {
    const std::size_t left_over = end - begin;
    if (left_over > 0)
      refuse(concat("ends within a sample: ", left_over, " bytes are left over at byte ", bytes_used, ", where ",
                    stride, " are needed",
                    layout.channels > 1 ? concat(" (", layout.channels, " channels)") : std::string()));
    if (layout.segments[segment].samples)
      refuse(
          concat("ends at byte ", bytes_used, ", ", left_in_segment, " samples before the end of capture ", segment));
    left_in_segment = 0;
  }

  [[noreturn]] void refuse(const std::string& fault) const {
    throw Error(ErrorCode::format, concat("'", name, "' ", fault));
  }
};

IqStream::IqStream(const std::filesystem::path& path, const IqLayout& layout) : state_(std::make_unique<State>()) {
  validate(layout);
  // Not to wait for a pipe's writer here, where the user could not stop it; `fill` waits.
  state_->descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (state_->descriptor < 0)
    throw Error(ErrorCode::io, concat("cannot open '", path.string(), "': ", std::strerror(errno)));
  state_->owns_descriptor = true;
  state_->name = path.string();
  state_->start(layout);
  state_->enter_segment();
}

IqStream::IqStream(int descriptor, std::string name, const IqLayout& layout) : state_(std::make_unique<State>()) {
  validate(layout);
  state_->descriptor = descriptor;
  state_->name = std::move(name);
  state_->start(layout);
  state_->enter_segment();
}

IqStream::~IqStream() = default;
IqStream::IqStream(IqStream&&) noexcept = default;
IqStream& IqStream::operator=(IqStream&&) noexcept = default;

std::size_t IqStream::read(std::span<std::complex<float>> out) {
  State& state = *state_;
  const std::size_t offset = static_cast<std::size_t>(state.layout.channel) * sample_bytes(state.layout.format);
  std::size_t done = 0;
  while (done < out.size() && state.left_in_segment > 0) {
    const std::size_t buffered = (state.end - state.begin) / state.stride;
    if (buffered == 0) {
      if (!state.fill()) state.check_end();
      continue;
    }
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(std::min(buffered, out.size() - done), state.left_in_segment));
    const auto bytes = std::span(state.buffer).subspan(state.begin + offset, count * state.stride - offset);
    decode_iq(state.layout.format, bytes, state.stride, out.subspan(done, count));
    state.use(count * state.stride);
    state.left_in_segment -= count;
    state.samples_read += count;
    done += count;
  }
  return done;
}

bool IqStream::next_segment() {
  if (state_->segment + 1 == state_->layout.segments.size()) return false;
  ++state_->segment;
  state_->enter_segment();
  return true;
}

std::uint64_t IqStream::position() const noexcept {
  return state_->samples_read;
}

}  // namespace podaq
