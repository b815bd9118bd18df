import type { ReactNode } from 'react'
import { usePlace } from '../../shell/router.tsx'
import { WaitQueueView } from './wait-queue.tsx'
import { LinesView } from './wait-queues.tsx'
import './locks.css'

/** The lines of locks; one of them when the address names an operation and a resource. */
export default function LocksView(): ReactNode {
  const { operation, resource } = usePlace().query
  if (operation === undefined || resource === undefined) return <LinesView />
  return (
    <WaitQueueView key={JSON.stringify([operation, resource])} operation={operation} resource={resource} />
  )
}
