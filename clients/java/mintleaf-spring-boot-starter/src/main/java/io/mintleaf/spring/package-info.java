/** Auto-configuration of a {@link io.mintleaf.client.MintleafClient} for Spring Boot 2.7 and 3. */
package io.mintleaf.spring;
