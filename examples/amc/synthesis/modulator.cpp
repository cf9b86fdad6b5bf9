#include "amc/synthesis/modulator.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "amc/synthesis/liquid_handle.h"
#include "amc/synthesis/message.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq::amc {

namespace {

using Sample = std::complex<float>;
using ComplexInterpolator = LiquidHandle<firinterp_crcf, firinterp_crcf_destroy>;
using RealInterpolator = LiquidHandle<firinterp_rrrf, firinterp_rrrf_destroy>;

// Every transmitter below makes one symbol, or one sample of the message, into samples_per_symbol output samples.
// `warm_up` counts the symbols after which a transmitter has forgotten that it started from silence.

/// Amplitude and phase keying through a root raised cosine.
struct LinearTransmitter {
  LiquidHandle<modemcf, modemcf_destroy> modem;
  ComplexInterpolator pulse;
  unsigned constellation_size;
  int warm_up;

  LinearTransmitter(modulation_scheme scheme, const Pulse& options)
      : modem(modemcf_create(scheme)),
        pulse(firinterp_crcf_create_prototype(LIQUID_FIRFILT_RRC, static_cast<unsigned>(options.samples_per_symbol),
                                              static_cast<unsigned>(options.delay_symbols),
                                              static_cast<float>(options.roll_off), 0.0F)),
        constellation_size(1U << modemcf_get_bps(modem.get())),
        warm_up(2 * options.delay_symbols) {}

  void start(CounterRandom& /*random*/) { firinterp_crcf_reset(pulse.get()); }

  void next(CounterRandom& random, Sample* out) {
    Sample symbol;
    modemcf_modulate(modem.get(), random.below(constellation_size), &symbol);
    firinterp_crcf_execute(pulse.get(), symbol, out);
  }
};

/// Offset QPSK: binary keying on both axes, the imaginary one half a symbol later.
struct OffsetQpskTransmitter {
  RealInterpolator in_phase;
  RealInterpolator quadrature;
  std::vector<float> real;
  std::vector<float> imaginary;
  std::vector<float> delayed;  ///< Second half of the last symbol's imaginary part, then this symbol's first half.
  int warm_up;

  explicit OffsetQpskTransmitter(const Pulse& options)
      : in_phase(create(options)),
        quadrature(create(options)),
        real(static_cast<std::size_t>(options.samples_per_symbol)),
        imaginary(real.size()),
        delayed(real.size()),
        warm_up(2 * options.delay_symbols + 1) {}

  static firinterp_rrrf create(const Pulse& options) {
    return firinterp_rrrf_create_prototype(LIQUID_FIRFILT_RRC, static_cast<unsigned>(options.samples_per_symbol),
                                           static_cast<unsigned>(options.delay_symbols),
                                           static_cast<float>(options.roll_off), 0.0F);
  }

  void start(CounterRandom& /*random*/) {
    firinterp_rrrf_reset(in_phase.get());
    firinterp_rrrf_reset(quadrature.get());
    std::ranges::fill(delayed, 0.0F);
  }

  void next(CounterRandom& random, Sample* out) {
    constexpr float level = 0.70710678F;  // 1/√2: the symbol's energy is 1
    const auto bits = random.below(4);
    const auto half = static_cast<std::ptrdiff_t>(delayed.size() / 2);
    firinterp_rrrf_execute(in_phase.get(), (bits & 1U) != 0 ? level : -level, real.data());
    firinterp_rrrf_execute(quadrature.get(), (bits & 2U) != 0 ? level : -level, imaginary.data());
    std::copy(imaginary.begin(), imaginary.begin() + half, delayed.begin() + half);
    for (std::size_t i = 0; i < real.size(); ++i) out[i] = {real[i], delayed[i]};
    std::copy(imaginary.begin() + half, imaginary.end(), delayed.begin());
  }
};

constexpr int frequency_pulse_delay = 3;  // symbols: half the length of the Gaussian pulse

/// Binary frequency keying with continuous phase, modulation index 1/2.
struct FrequencyKeyingTransmitter {
  LiquidHandle<cpfskmod, cpfskmod_destroy> modulator;
  int warm_up = 2 * (frequency_pulse_delay + 1);

  FrequencyKeyingTransmitter(liquid_cpfsk_filter pulse, const Pulse& options)
      : modulator(cpfskmod_create(1, 0.5F, static_cast<unsigned>(options.samples_per_symbol), frequency_pulse_delay,
                                  static_cast<float>(options.roll_off), pulse)) {}

  void start(CounterRandom& /*random*/) { cpfskmod_reset(modulator.get()); }

  void next(CounterRandom& random, Sample* out) { cpfskmod_modulate(modulator.get(), random.below(2), out); }
};

struct GmskTransmitter {
  LiquidHandle<gmskmod, gmskmod_destroy> modulator;
  int warm_up = 2 * frequency_pulse_delay;

  explicit GmskTransmitter(const Pulse& options)
      : modulator(gmskmod_create(static_cast<unsigned>(options.samples_per_symbol), frequency_pulse_delay,
                                 static_cast<float>(options.roll_off))) {}

  void start(CounterRandom& /*random*/) { gmskmod_reset(modulator.get()); }

  void next(CounterRandom& random, Sample* out) { gmskmod_modulate(modulator.get(), random.below(2), out); }
};

constexpr unsigned message_interpolator_delay = 5;         // message samples
constexpr float message_interpolator_attenuation = 60.0F;  // dB

/// Amplitude modulation at the message's rate, then interpolation: at the full rate the band of speech would be too
/// low for liquid's Hilbert transform, and the unwanted sideband would stay.
struct AmplitudeTransmitter {
  MessageSource message;
  LiquidHandle<ampmodem, ampmodem_destroy> modulator;
  ComplexInterpolator interpolator;
  int warm_up;

  AmplitudeTransmitter(liquid_ampmodem_type type, bool suppressed_carrier, const Impairments& options)
      : message(options.message, options.sample_rate_hz / options.pulse.samples_per_symbol),
        modulator(ampmodem_create(static_cast<float>(options.analog.modulation_index), type, suppressed_carrier)),
        interpolator(firinterp_crcf_create_kaiser(static_cast<unsigned>(options.pulse.samples_per_symbol),
                                                  message_interpolator_delay, message_interpolator_attenuation)),
        warm_up(message.settling_samples() + static_cast<int>(2 * ampmodem_get_delay_mod(modulator.get())) +
                static_cast<int>(2 * message_interpolator_delay)) {}

  void start(CounterRandom& random) {
    message.start(random);
    ampmodem_reset(modulator.get());
    firinterp_crcf_reset(interpolator.get());
  }

  void next(CounterRandom& random, Sample* out) {
    Sample modulated;
    ampmodem_modulate(modulator.get(), message.next(random), &modulated);
    firinterp_crcf_execute(interpolator.get(), modulated, out);
  }
};

struct FrequencyTransmitter {
  MessageSource message;
  RealInterpolator interpolator;
  LiquidHandle<freqmod, freqmod_destroy> modulator;
  std::vector<float> interpolated;
  int warm_up;

  explicit FrequencyTransmitter(const Impairments& options)
      : message(options.message, options.sample_rate_hz / options.pulse.samples_per_symbol),
        interpolator(firinterp_rrrf_create_kaiser(static_cast<unsigned>(options.pulse.samples_per_symbol),
                                                  message_interpolator_delay, message_interpolator_attenuation)),
        modulator(freqmod_create(static_cast<float>(options.analog.frequency_deviation_hz / options.sample_rate_hz))),
        interpolated(static_cast<std::size_t>(options.pulse.samples_per_symbol)),
        warm_up(message.settling_samples() + static_cast<int>(2 * message_interpolator_delay)) {}

  void start(CounterRandom& random) {
    message.start(random);
    firinterp_rrrf_reset(interpolator.get());
    freqmod_reset(modulator.get());
  }

  void next(CounterRandom& random, Sample* out) {
    firinterp_rrrf_execute(interpolator.get(), message.next(random), interpolated.data());
    freqmod_modulate_block(modulator.get(), interpolated.data(), static_cast<unsigned>(interpolated.size()), out);
  }
};

using Transmitter = std::variant<LinearTransmitter, OffsetQpskTransmitter, FrequencyKeyingTransmitter, GmskTransmitter,
                                 AmplitudeTransmitter, FrequencyTransmitter>;

/// liquid's constellation of a linear modulation; 32 and 128 points of QAM form a cross, as on the air. Nothing for a
/// modulation that is not linear.
std::optional<modulation_scheme> constellation(Modulation modulation) {
  switch (modulation) {
    case Modulation::ook:
      return LIQUID_MODEM_OOK;
    case Modulation::ask4:
      return LIQUID_MODEM_ASK4;
    case Modulation::ask8:
      return LIQUID_MODEM_ASK8;
    case Modulation::bpsk:
      return LIQUID_MODEM_BPSK;
    case Modulation::qpsk:
      return LIQUID_MODEM_QPSK;
    case Modulation::psk8:
      return LIQUID_MODEM_PSK8;
    case Modulation::psk16:
      return LIQUID_MODEM_PSK16;
    case Modulation::psk32:
      return LIQUID_MODEM_PSK32;
    case Modulation::apsk16:
      return LIQUID_MODEM_APSK16;
    case Modulation::apsk32:
      return LIQUID_MODEM_APSK32;
    case Modulation::apsk64:
      return LIQUID_MODEM_APSK64;
    case Modulation::apsk128:
      return LIQUID_MODEM_APSK128;
    case Modulation::qam16:
      return LIQUID_MODEM_QAM16;
    case Modulation::qam32:
      return LIQUID_MODEM_SQAM32;
    case Modulation::qam64:
      return LIQUID_MODEM_QAM64;
    case Modulation::qam128:
      return LIQUID_MODEM_SQAM128;
    case Modulation::qam256:
      return LIQUID_MODEM_QAM256;
    default:
      return std::nullopt;
  }
}

Transmitter create_transmitter(Modulation modulation, const Impairments& impairments) {
  const auto& pulse = impairments.pulse;
  if (const auto scheme = constellation(modulation)) return LinearTransmitter(*scheme, pulse);
  switch (modulation) {
    case Modulation::oqpsk:
      return OffsetQpskTransmitter(pulse);
    case Modulation::gfsk:
      return FrequencyKeyingTransmitter(LIQUID_CPFSK_GMSK, pulse);
    case Modulation::cpfsk:
      return FrequencyKeyingTransmitter(LIQUID_CPFSK_SQUARE, pulse);
    case Modulation::gmsk:
      return GmskTransmitter(pulse);
    case Modulation::am_ssb_wc:
      return AmplitudeTransmitter(LIQUID_AMPMODEM_USB, false, impairments);
    case Modulation::am_ssb_sc:
      return AmplitudeTransmitter(LIQUID_AMPMODEM_USB, true, impairments);
    case Modulation::am_dsb_wc:
      return AmplitudeTransmitter(LIQUID_AMPMODEM_DSB, false, impairments);
    case Modulation::am_dsb_sc:
      return AmplitudeTransmitter(LIQUID_AMPMODEM_DSB, true, impairments);
    case Modulation::fm:
      return FrequencyTransmitter(impairments);
    default:
      break;
  }
  throw Error(ErrorCode::invalid_argument,
              concat("Modulator: ", static_cast<int>(modulation), " is not the number of a modulation"));
}

}  // namespace

struct Modulator::State {
  Transmitter transmitter;
  std::size_t samples_per_symbol;
  std::vector<Sample> transmission;
};

Modulator::Modulator(Modulation modulation, const Impairments& impairments)
    : state_(new State{create_transmitter(modulation, impairments),
                       static_cast<std::size_t>(impairments.pulse.samples_per_symbol),
                       {}}) {}

Modulator::~Modulator() = default;
Modulator::Modulator(Modulator&&) noexcept = default;
Modulator& Modulator::operator=(Modulator&&) noexcept = default;

void Modulator::generate(CounterRandom random, int start, std::span<std::complex<float>> out) {
  const auto step = state_->samples_per_symbol;
  const auto skipped = static_cast<std::size_t>(start);
  auto& transmission = state_->transmission;
  std::visit(
      [&](auto& transmitter) {
        const auto symbols = (skipped + out.size() + step - 1) / step;
        transmission.resize(symbols * step);
        transmitter.start(random);
        for (int i = 0; i < transmitter.warm_up; ++i) transmitter.next(random, transmission.data());
        for (std::size_t i = 0; i < symbols; ++i) transmitter.next(random, transmission.data() + i * step);
      },
      state_->transmitter);
  std::copy_n(transmission.begin() + static_cast<std::ptrdiff_t>(skipped), out.size(), out.begin());
}

}  // namespace podaq::amc
