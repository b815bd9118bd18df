import type { ReactNode } from 'react'

/** Small drawings of one line each, in the colour of the text around them. They say nothing that a word does not. */
const paths = {
  overview: 'M3 3h4v5H3zM9 3h4v3H9zM9 8h4v5H9zM3 10h4v3H3z',
  queues: 'M3 4h10M3 8h10M3 12h6',
  jobs: 'M3 5.5h10v7H3zM6 5.5V3.5h4v2',
  schedules: 'M8 4.5V8l2.5 1.5M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11z',
  errors: 'M5.500 3h5L13 5.500v5L10.500 13h-5L3 10.500v-5zM8 5.500v3M8 10.500h.01',
  workers:
    'M6 3.500a2 2 0 1 0 0 4 2 2 0 0 0 0-4zM2.500 12.500c.3-2.300 1.700-3.300 3.500-3.300s3.200 1 3.500 3.300M10.500 4a1.700 1.700 0 1 1 .3 3.400M11 9.300c1.500.1 2.400 1.100 2.600 3.200',
  locks: 'M4 7.5h8v5.5H4zM5.5 7.5V5.5a2.5 2.5 0 0 1 5 0v2',
  once: 'M8 2.5l4.5 2v3.5c0 3-2 4.6-4.5 5.5-2.5-.9-4.5-2.5-4.5-5.5V4.5zM6 8l1.5 1.5L10 6.5',
  monitor: 'M4.5 11V7.5a3.5 3.5 0 0 1 7 0V11l1 1h-9zM7 13.5h2',
  nodes: 'M2.5 3.5h11v3.5h-11zM2.5 9h11v3.5h-11zM5 5.2h.01M5 10.7h.01',
  tasks: 'M3 8h6M7 5.5L9.5 8 7 10.5M11 3.5h2v9h-2',
  contention: 'M3 3h3v3H3zM6.5 3h3v3h-3zM10 3h3v3h-3zM3 6.5h3v3H3zM10 6.5h3v3h-3zM6.5 10h3v3h-3z',
  audit: 'M4 2.5h6l2.5 2.5v8.5H4zM6 7h4M6 9.5h4',
  settings: 'M3 5h6M12 5h1M3 11h1M7 11h6M10.5 3.5v3M5.5 9.5v3',
  scheduled: 'M8 5v3l2 1.2M8 2.8a5.2 5.2 0 1 0 0 10.4A5.2 5.2 0 0 0 8 2.8z',
  ready: 'M8 3.2a4.8 4.8 0 1 0 0 9.6 4.8 4.8 0 0 0 0-9.6z',
  waiting: 'M5 3h6M5 13h6M5.5 3c0 3.5 5 3.5 5 5s-5 1.500-5 5M10.500 3c0 3.500-5 3.500-5 5s5 1.500 5 5',
  running: 'M5.500 3.500l7 4.500-7 4.500z',
  completed: 'M3.500 8.500l3 3 6-7',
  dead: 'M4 4l8 8M12 4l-8 8',
  cancelled: 'M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3zM4.600 4.600l6.800 6.800',
  paused: 'M6 4v8M10 4v8',
  warning: 'M8 3l5.500 9.500h-11zM8 6.800v2.700M8 11.200h.01',
  info: 'M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3zM8 7.500v3M8 5.500h.01',
  copy: 'M5.500 5.500h7v7h-7zM3.500 10.500v-7h7',
  search: 'M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM10 10l3 3',
  menu: 'M3 4.500h10M3 8h10M3 11.500h10',
  keyboard: 'M2.500 4.500h11v7h-11zM5 7h.01M8 7h.01M11 7h.01M5.500 9.500h5',
  person:
    'M8 3a2.300 2.300 0 1 0 0 4.600A2.300 2.300 0 0 0 8 3zM3.500 13c.5-2.800 2.300-4 4.500-4s4 1.200 4.500 4',
  next: 'M6 3.500L10.500 8 6 12.500',
  down: 'M3.500 6L8 10.500 12.500 6',
} as const

export type IconName = keyof typeof paths

export interface IconProps {
  readonly name: IconName
}

export function Icon({ name }: IconProps): ReactNode {
  return (
    <svg className="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  )
}
