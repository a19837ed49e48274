/** The client of Mintleaf: {@link io.mintleaf.client.MintleafClient}. It needs nothing but Java 8. */
package io.mintleaf.client;
