import { type DynamicModule, RequestMethod, type Type } from '@nestjs/common';
import { METHOD_METADATA, MODULE_METADATA, PATH_METADATA } from '@nestjs/common/constants.js';
import { type KnownRoute, specOf } from './routes.js';

const ROUTE_CONFIG = '__fastify_route_config__';
type Class = Type<object>;

/** The routes that a module and those it imports declare, without starting anything. */
export function declaredRoutes(module: Class | DynamicModule): KnownRoute[] {
  return [...new Set(controllersOf(module))].flatMap(routesOf);
}

function controllersOf(module: Class | DynamicModule): Class[] {
  const root = 'module' in module ? (module.module as Class) : module;
  const imported = list<Class | DynamicModule>(MODULE_METADATA.IMPORTS, root).flatMap(controllersOf);
  return [...imported, ...list<Class>(MODULE_METADATA.CONTROLLERS, root)];
}

function routesOf({ prototype }: Class): KnownRoute[] {
  const handlers = Object.values(Object.getOwnPropertyDescriptors(prototype)) as { value?: object }[];
  return handlers.flatMap(({ value: handler }) => {
    if (handler === undefined) return [];
    const spec = specOf(Reflect.getMetadata(ROUTE_CONFIG, handler));
    if (spec === undefined) return [];
    const method = RequestMethod[Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod];
    return [{ method, path: Reflect.getMetadata(PATH_METADATA, handler) as string, spec }];
  });
}

function list<Kind>(key: string, module: Class): Kind[] {
  return (Reflect.getMetadata(key, module) as Kind[] | undefined) ?? [];
}
