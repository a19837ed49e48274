/** Keys of ShardingSphere from a Mintleaf cluster. */
package io.mintleaf.shardingsphere;
