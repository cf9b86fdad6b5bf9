#pragma once

#include <hdf5.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace podaq {

/// Keeps HDF5 from printing its errors while one lives; `throw_hdf5` puts the reason into the text instead.
class QuietHdf5 {
 public:
  QuietHdf5() {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~QuietHdf5() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }
  QuietHdf5(const QuietHdf5&) = delete;
  QuietHdf5& operator=(const QuietHdf5&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

/// The innermost reason that HDF5 gives for its last failure, as " (HDF5: …)"; empty if it gives none.
[[nodiscard]] std::string hdf5_reason();

/// Throws Error(format): the file, what failed there, and the innermost reason that HDF5 gives.
[[noreturn]] void throw_hdf5(const std::filesystem::path& path, std::string_view what);

/// Owns one identifier of HDF5; `Close` is H5Fclose, H5Dclose and so on.
template <auto Close>
class Hdf5Handle {
 public:
  Hdf5Handle() = default;
  explicit Hdf5Handle(hid_t number) : number_(number) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : number_(std::exchange(other.number_, H5I_INVALID_HID)) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Hdf5Handle() {
    if (is_open()) Close(number_);
  }

  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  [[nodiscard]] hid_t number() const { return number_; }

  /// Closes now and says whether that worked: what is still to be written may fail only here.
  [[nodiscard]] bool close() { return Close(std::exchange(number_, H5I_INVALID_HID)) >= 0; }

 private:
  hid_t number_ = H5I_INVALID_HID;
};

using Hdf5File = Hdf5Handle<H5Fclose>;
using Hdf5Dataset = Hdf5Handle<H5Dclose>;
using Hdf5Space = Hdf5Handle<H5Sclose>;
using Hdf5Type = Hdf5Handle<H5Tclose>;
using Hdf5Properties = Hdf5Handle<H5Pclose>;

}  // namespace podaq
