package com.sankuai.inf.leaf.plugin.annotation;

import com.sankuai.inf.leaf.plugin.LeafSpringBootStarterAutoConfigure;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.context.annotation.Import;

/** Makes the services that {@code leaf.segment.enable} and {@code leaf.snowflake.enable} switch on. */
@Documented
@Inherited
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Import(LeafSpringBootStarterAutoConfigure.class)
public @interface EnableLeafServer {}
