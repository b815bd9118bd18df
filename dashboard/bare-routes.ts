import type { Plugin } from 'vite'

/**
 * Gives the browser routes without what only the server needs. A file of src/http/contract that holds routes is run here, and
 * each of its routes becomes the few fields a client looks at: no schemas, no descriptions, and no typebox at all.
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
      // What is no route is a limit or a schema; nobody takes the latter, so it is dropped with all that is not taken.
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
  readonly room: string
  readonly mutates: boolean
  readonly replyType?: string
  readonly replies: Readonly<Record<number, unknown>>
}

function isRoute(value: unknown): value is BareRoute {
  return (
    typeof value === 'object' && value !== null && 'path' in value && 'replies' in value && 'method' in value
  )
}

function bare({ id, method, path, scope, room, mutates, replyType, replies }: BareRoute): BareRoute {
  const statuses = Object.fromEntries(Object.keys(replies).map((status) => [status, {}]))
  return { id, method, path, scope, room, mutates, ...(replyType ? { replyType } : {}), replies: statuses }
}
