from hypothesis import settings

from support.route_machine import RouteTableMachine

TestRouteTable = RouteTableMachine.TestCase
TestRouteTable.settings = settings(max_examples=150, stateful_step_count=40)
