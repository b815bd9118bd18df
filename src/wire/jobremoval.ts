import type { Route } from './route.ts'
import { nameOptions, schemaFor, strict, Type } from './schema.ts'

export interface RemoveBody {
  readonly ids: readonly string[]
}
export interface Removed {
  readonly removed: readonly string[]
}

export const removeJobs: Route<{ body: RemoveBody; reply: Removed }> = {
  id: 'removeJobs',
  method: 'POST',
  path: '/v1/jobs/remove',
  scope: 'admin',
  room: 'jobs',
  summary: 'Forget these jobs, whether they wait or have ended, with all that is kept about them.',
  description:
    'A job that runs stays; cancel it first. Answers the ids of those that were there and are gone now, in any order.',
  body: schemaFor<RemoveBody>()(
    Type.Object({ ids: Type.Array(Type.String(nameOptions), { maxItems: 1_000 }) }, strict),
  ),
  replies: { 200: schemaFor<Removed>()(Type.Object({ removed: Type.Array(Type.String()) })) },
  mutates: true,
}
