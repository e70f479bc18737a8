/// Finds the mount of a lock file in the text of /proc/self/mountinfo.
#include "sqlite/mounts.hpp"

#include <gtest/gtest.h>

#include <string>

namespace syncguard::sqlite {
namespace {

/// A line of mountinfo. The root is mount 1.
std::string line(int id, int parent, const std::string& mount_point, const std::string& type) {
    return std::to_string(id) + " " + std::to_string(parent) + " 254:0 / " + mount_point +
           " rw,relatime shared:1 master:2 - " + type + " source rw\n";
}

TEST(remote_filesystem, includes_network_file_systems_and_those_of_a_virtual_machines_host) {
    for (const char* type :
         {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "ceph", "fuse", "fuse.sshfs",
          "fuse.glusterfs", "vboxsf", "vmhgfs", "prl_fs", "drvfs", "fakeowner", "gfs2", "lustre"}) {
        EXPECT_TRUE(is_remote_filesystem(type)) << type;
    }
}

TEST(remote_filesystem, includes_unknown_file_systems_and_those_not_mounted_yet) {
    EXPECT_TRUE(is_remote_filesystem(""));
    EXPECT_TRUE(is_remote_filesystem("autofs"));
}

TEST(remote_filesystem, excludes_local_file_systems) {
    for (const char* type :
         {"ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "fuse.fuse-overlayfs"}) {
        EXPECT_FALSE(is_remote_filesystem(type)) << type;
    }
}

TEST(mount_of_a_file, is_the_deepest_one_above_it) {
    const std::string mountinfo =
        line(3, 2, "/srv/data", "nfs4") + line(1, 0, "/", "ext4") + line(2, 1, "/srv", "xfs");
    EXPECT_EQ(find_mount(mountinfo, "/srv/data/locks.db").type, "nfs4");
    EXPECT_EQ(find_mount(mountinfo, "/srv/locks.db").type, "xfs");
    EXPECT_EQ(find_mount(mountinfo, "/srv/data-of-others/locks.db").type, "xfs");
    EXPECT_EQ(find_mount(mountinfo, "/locks.db").type, "ext4");
    EXPECT_EQ(find_mount(mountinfo, "/srv/data").mount_point, "/srv/data");
}

TEST(mount_of_a_file, is_the_latest_of_several_on_the_same_point) {
    const std::string mountinfo =
        line(1, 1, "/", "ext4") + line(2, 1, "/srv", "autofs") + line(3, 2, "/srv", "nfs4");
    EXPECT_EQ(find_mount(mountinfo, "/srv/locks.db").type, "nfs4");
}

TEST(mount_of_a_file, is_not_one_that_a_later_mount_covers) {
    const std::string mountinfo =
        line(1, 0, "/", "ext4") + line(2, 1, "/srv/locks", "ext4") + line(3, 1, "/srv", "nfs4");
    EXPECT_EQ(find_mount(mountinfo, "/srv/locks/locks.db").type, "nfs4");
}

TEST(mount_of_a_file, is_not_one_that_covers_the_root_of_the_process) {
    const std::string mountinfo =
        line(43, 42, "/", "ext4") + line(63, 43, "/", "tmpfs") + line(83, 43, "/data", "nfs4");
    EXPECT_EQ(find_mount(mountinfo, "/data/locks.db").type, "nfs4");
    EXPECT_EQ(find_mount(mountinfo, "/locks.db").type, "ext4");
}

TEST(mount_of_a_file, is_unknown_in_a_list_without_a_root) {
    EXPECT_EQ(find_mount(line(1, 2, "/", "ext4") + line(2, 1, "/", "xfs"), "/locks.db").type, "");
}

TEST(mount_of_a_file, may_have_escaped_characters_in_its_path) {
    const std::string mountinfo = line(1, 0, "/", "ext4") + line(2, 1, R"(/a\040b\134c)", "cifs");
    EXPECT_EQ(find_mount(mountinfo, R"(/a b\c/locks.db)").type, "cifs");
}

TEST(mount_of_a_file, needs_no_optional_fields) {
    EXPECT_EQ(find_mount("27 1 254:0 / / rw - ext4 source rw\n", "/locks.db").type, "ext4");
}

TEST(mount_of_a_file, is_unknown_if_no_listed_mount_is_above_it) {
    EXPECT_EQ(find_mount(line(1, 0, "/srv", "ext4"), "/var/locks.db").type, "");
    EXPECT_EQ(find_mount("", "/var/locks.db").type, "");
    EXPECT_EQ(find_mount("27 1 254:0 /\nnonsense\n", "/var/locks.db").type, "");
}

}  // namespace
}  // namespace syncguard::sqlite
