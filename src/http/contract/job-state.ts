import { Type } from './schema.ts'

/** The states of a job. */
export const jobState: Type.TUnion<
  [
    Type.TLiteral<'scheduled'>,
    Type.TLiteral<'ready'>,
    Type.TLiteral<'waiting'>,
    Type.TLiteral<'running'>,
    Type.TLiteral<'completed'>,
    Type.TLiteral<'dead'>,
    Type.TLiteral<'cancelled'>,
  ]
> = Type.Union([
  Type.Literal('scheduled'),
  Type.Literal('ready'),
  Type.Literal('waiting'),
  Type.Literal('running'),
  Type.Literal('completed'),
  Type.Literal('dead'),
  Type.Literal('cancelled'),
])
