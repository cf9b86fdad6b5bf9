#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace podaq::amc {

/// Every modulation that the synthesizer can make. The numbers are part of the key of each random draw: append only.
enum class Modulation : std::uint16_t {
  ook,
  ask4,
  ask8,
  bpsk,
  qpsk,
  psk8,
  psk16,
  psk32,
  apsk16,
  apsk32,
  apsk64,
  apsk128,
  qam16,
  qam32,
  qam64,
  qam128,
  qam256,
  am_ssb_wc,
  am_ssb_sc,
  am_dsb_wc,
  am_dsb_sc,
  fm,
  gmsk,
  oqpsk,
  gfsk,
  cpfsk,
};

/// A modulation under the name that a data set gives it.
struct NamedModulation {
  const char* name;
  Modulation modulation;
};

/// The class lists of the two RadioML data sets. Three things differ from the sets themselves, all on the side of
/// truth: AM-SSB of 2016.10A holds a signal (suppressed carrier, upper sideband), where the original's frames hold
/// noise alone; the SNR label is the frame's true ratio in dB (see `Synthesizer::frame`), where the original took
/// 10^(−snr/10) for the noise's amplitude; and the analog message is noise shaped like speech, where the original
/// played a recording.
enum class ClassSet {
  radioml2016,  ///< 11 classes of 2016.10A, in the order of their names.
  radioml2018,  ///< 24 classes of 2018.01A, in the true order of its one-hot columns (the shipped classes.txt is
                ///< wrong).
};

/// The classes of a set; a class number is an index into them.
[[nodiscard]] std::span<const NamedModulation> classes(ClassSet set);

/// The set's own grid of signal-to-noise ratios in dB: −20…18 (2016) or −20…30 (2018) in steps of 2.
[[nodiscard]] std::vector<int> snr_grid(ClassSet set);

/// Complex samples in one frame of the set: 128 (2016) or 1024 (2018).
[[nodiscard]] int frame_length(ClassSet set);

}  // namespace podaq::amc
