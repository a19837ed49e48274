/** Keys of Hibernate from a Mintleaf cluster. */
package io.mintleaf.hibernate;
