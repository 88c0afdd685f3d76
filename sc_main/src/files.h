// Files that are either there whole or not at all.
#pragma once

#include <string>
#include <vector>

namespace kb::cli {

/// Writes NAME.part, syncs it to disk, renames it to NAME and syncs the folder. Throws IoError.
void write_atomically(const std::string& path, const std::string& content);

/// Syncs a finished file NAME.part, renames it to NAME and syncs the folder. Throws IoError.
void publish(const std::string& path);

/// Throws IoError naming the file and the reason.
std::string read_file(const std::string& path);
bool file_exists(const std::string& path);

/// Creates a folder with its parents. Throws IoError.
void make_directories(const std::string& path);

/// A new empty folder for what a command needs while it runs; removed with everything in it at the end.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace kb::cli
