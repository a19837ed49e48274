/** Keys of MyBatis-Plus from a Mintleaf cluster. */
package io.mintleaf.mybatisplus;
