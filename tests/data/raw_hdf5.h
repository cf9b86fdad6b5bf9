#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/hdf5_handle.h"

namespace podaq::test {

/// Writes datasets of any shape and type, so that files can be made that no writer of ours would make.
class RawHdf5 {
 public:
  explicit RawHdf5(const std::filesystem::path& path)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {}

  /// `values` are rows × … numbers of `memory_type`, or nullptr for a dataset that is only announced.
  void add(const std::string& name, hid_t type, const std::vector<hsize_t>& shape, hid_t memory_type,
           const void* values, const Hdf5Properties& creation = {}) const {
    const Hdf5Space space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr));
    const hid_t properties = creation.is_open() ? creation.number() : H5P_DEFAULT;
    const Hdf5Dataset dataset(
        H5Dcreate2(file_.number(), name.c_str(), type, space.number(), H5P_DEFAULT, properties, H5P_DEFAULT));
    if (values != nullptr) H5Dwrite(dataset.number(), memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  }

  void add_floats(const std::string& name, const std::vector<hsize_t>& shape, const std::vector<float>& values,
                  const Hdf5Properties& creation = {}) const {
    add(name, H5T_IEEE_F32LE, shape, H5T_NATIVE_FLOAT, values.data(), creation);
  }

  void add_integers(const std::string& name, const std::vector<hsize_t>& shape,
                    const std::vector<std::int64_t>& values) const {
    add(name, H5T_STD_I64LE, shape, H5T_NATIVE_INT64, values.data());
  }

  [[nodiscard]] hid_t number() const { return file_.number(); }

 private:
  Hdf5File file_;
};

/// How a dataset is cut into chunks and compressed.
inline Hdf5Properties deflated(const std::vector<hsize_t>& chunk, unsigned level) {
  Hdf5Properties properties(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_chunk(properties.number(), static_cast<int>(chunk.size()), chunk.data());
  if (level > 0) H5Pset_deflate(properties.number(), level);
  return properties;
}

}  // namespace podaq::test
