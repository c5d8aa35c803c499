// SPDX-License-Identifier: Apache-2.0

package filelock

import "golang.org/x/sys/unix"

// networkMagic contains the statfs(2) numbers of file systems that several machines can mount. FIFOs, and on most
// of them flock, work only within one machine.
var networkMagic = map[uint32]string{
	unix.NFS_SUPER_MAGIC:   "NFS",
	unix.SMB_SUPER_MAGIC:   "SMB",
	unix.SMB2_SUPER_MAGIC:  "SMB",
	unix.CIFS_SUPER_MAGIC:  "CIFS",
	unix.FUSE_SUPER_MAGIC:  "FUSE",
	unix.V9FS_MAGIC:        "9p",
	unix.AFS_SUPER_MAGIC:   "AFS",
	unix.AFS_FS_MAGIC:      "AFS",
	unix.CODA_SUPER_MAGIC:  "Coda",
	unix.NCP_SUPER_MAGIC:   "NCP",
	unix.CEPH_SUPER_MAGIC:  "Ceph",
	unix.OCFS2_SUPER_MAGIC: "OCFS2",
	0x01161970:             "GFS2",
	0x0bd00bd0:             "Lustre",
	0x47504653:             "GPFS",
}

// networkFS returns the kind of network file system that contains dir, or "".
func networkFS(dir string) string {
	var st unix.Statfs_t
	if ignoringEINTR(func() error { return unix.Statfs(dir, &st) }) != nil {
		return ""
	}
	return networkMagic[uint32(st.Type)]
}
