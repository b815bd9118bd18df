import type { Plugin } from 'vite'

/**
 * Strips server-only fields from routes for the browser. The build runs each file of src/http/contract that holds routes
 * and keeps the few fields that a client uses: no schemas, no descriptions, no typebox.
 */
export function bareRoutes(): Plugin {
  return {
    name: 'signalbox-bare-routes',
    enforce: 'pre',
    async load(id) {
      if (!/\/src\/http\/contract\/(routes\/)?[\w-]+\.ts$/.test(id)) return null
      const values = Object.entries((await import(id)) as Record<string, unknown>)
      const isData = values.every(([, value]) => typeof value !== 'function')
      if (!isData || !values.some(([, value]) => isRoute(value))) return null
      // Other exports are limits or schemas. The dashboard imports no schema, so the bundler drops them.
      const print = (value: unknown) => JSON.stringify(isRoute(value) ? bare(value) : value)
      return values.map(([name, value]) => `export const ${name} = ${print(value)}`).join('\n')
    },
  }
}

interface BareRoute {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly scope: string
  readonly module: string
  readonly isRead?: true
  readonly replyType?: string
  readonly replies: Readonly<Record<number, unknown>>
}

function isRoute(value: unknown): value is BareRoute {
  return (
    typeof value === 'object' && value !== null && 'path' in value && 'replies' in value && 'method' in value
  )
}

function bare({ id, method, path, scope, module, isRead, replyType, replies }: BareRoute): BareRoute {
  const statuses = Object.fromEntries(Object.keys(replies).map((status) => [status, {}]))
  return {
    id,
    method,
    path,
    scope,
    module,
    ...(isRead && { isRead }),
    ...(replyType && { replyType }),
    replies: statuses,
  }
}
