#include "amc/synthesis/modulation.h"

namespace podaq::amc {

namespace {

constexpr NamedModulation classes_of_2016[] = {
    {"8PSK", Modulation::psk8}, {"AM-DSB", Modulation::am_dsb_wc}, {"AM-SSB", Modulation::am_ssb_sc},
    {"BPSK", Modulation::bpsk}, {"CPFSK", Modulation::cpfsk},      {"GFSK", Modulation::gfsk},
    {"PAM4", Modulation::ask4}, {"QAM16", Modulation::qam16},      {"QAM64", Modulation::qam64},
    {"QPSK", Modulation::qpsk}, {"WBFM", Modulation::fm},
};

constexpr NamedModulation classes_of_2018[] = {
    {"OOK", Modulation::ook},
    {"4ASK", Modulation::ask4},
    {"8ASK", Modulation::ask8},
    {"BPSK", Modulation::bpsk},
    {"QPSK", Modulation::qpsk},
    {"8PSK", Modulation::psk8},
    {"16PSK", Modulation::psk16},
    {"32PSK", Modulation::psk32},
    {"16APSK", Modulation::apsk16},
    {"32APSK", Modulation::apsk32},
    {"64APSK", Modulation::apsk64},
    {"128APSK", Modulation::apsk128},
    {"16QAM", Modulation::qam16},
    {"32QAM", Modulation::qam32},
    {"64QAM", Modulation::qam64},
    {"128QAM", Modulation::qam128},
    {"256QAM", Modulation::qam256},
    {"AM-SSB-WC", Modulation::am_ssb_wc},
    {"AM-SSB-SC", Modulation::am_ssb_sc},
    {"AM-DSB-WC", Modulation::am_dsb_wc},
    {"AM-DSB-SC", Modulation::am_dsb_sc},
    {"FM", Modulation::fm},
    {"GMSK", Modulation::gmsk},
    {"OQPSK", Modulation::oqpsk},
};

}  // namespace

std::span<const NamedModulation> classes(ClassSet set) {
  if (set == ClassSet::radioml2016) return classes_of_2016;
  return classes_of_2018;
}

std::vector<int> snr_grid(ClassSet set) {
  const int highest = set == ClassSet::radioml2016 ? 18 : 30;
  std::vector<int> grid;
  for (int snr = -20; snr <= highest; snr += 2) grid.push_back(snr);
  return grid;
}

int frame_length(ClassSet set) {
  return set == ClassSet::radioml2016 ? 128 : 1024;
}

}  // namespace podaq::amc
